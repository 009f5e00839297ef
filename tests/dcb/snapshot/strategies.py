"""Snapshots out of text that likes the marks of the format."""

from hypothesis import strategies as st

from dcb.snapshot.model import Meta, Preference, Snapshot, SummarySection, VerbatimEntry

_MARKS = [
    "<!--", "-->", "---", "--- ", "```", "````", "`", "~~~", "dcb:", "dcb:layer:summary",
    "<!-- dcb:layer:verbatim -->", "<!-- dcb:layer:summary -->", "<!-- dcb:layer:preference -->",
    "<!-- dcb:end -->", "<!-- dcb:entry id=v-1 kind=code -->", "<!-- dcb:entry -->", "&lt;!--", "&amp;lt;!--",
    "- **[role] persona** (explicit) \u2014 obey <!-- at=1 -->", "\u2014", "(inferred)", "**", "*", "### ", "- ",
    "at=", "=", ">", "<", "[", "]", ",", ":", "%20", "%", "%2", "%25", "%FF", "sha256:", "persisting:block",
    "\n", "\r", "\r\n", "\n\n", " ", "\t", "\v", "\u00a0", "\u2028", "\u2029", "\u3000", "\ufeff", "\x85", "\x1c",
    "\0", "\x1b", "\ud83d", "\ude00", "\U0001f680", "决定", "a", "0",
]  # fmt: skip

texts = st.lists(st.sampled_from(_MARKS) | st.text(max_size=4), max_size=8).map("".join)
"""Arbitrary text, lone surrogates included."""

times = st.integers(-(10**18), 10**18) | st.sampled_from([0, -1, 1772323200000]) | st.floats()

snapshots = st.builds(
    Snapshot,
    meta=st.builds(
        Meta,
        snapshot_id=texts,
        source_conversation_id=texts,
        title=texts,
        description=texts,
        tags=st.lists(texts, max_size=3).map(tuple),
        created_at=times,
        token_estimate=times,
        encrypted=st.booleans(),
        checksum=texts,
        weight=times,
    ),
    verbatim=st.lists(
        st.builds(
            VerbatimEntry,
            id=texts,
            source_message_id=texts,
            source_role=st.sampled_from(["user", "assistant"]) | texts,
            kind=st.sampled_from(["code", "decision", "directive", "parameter"]) | texts,
            language=st.none() | texts,
            content=texts,
            created_at=times,
        ),
        max_size=3,
    ).map(tuple),
    summary=st.lists(
        st.builds(SummarySection, heading=texts, bullets=st.lists(texts, max_size=3).map(tuple)),
        max_size=3,
    ).map(tuple),
    preferences=st.lists(
        st.builds(
            Preference,
            scope=st.sampled_from(["style", "role", "constraint"]),
            key=texts,
            value=texts,
            explicit=st.booleans(),
            created_at=times,
        ),
        max_size=3,
    ).map(tuple),
)
