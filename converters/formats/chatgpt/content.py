"""Message content of every type into IR blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from converters.formats.chatgpt.files import asset_id
from converters.ir import Block, Reasoning, Text
from converters.shapes.attachments import file_block, image_or_file

if TYPE_CHECKING:
    from converters.formats.chatgpt.files import Files
    from converters.ledger import Ledger

__all__ = ["KNOWN", "blocks_of", "left_unread", "system_text", "text_of", "thoughts_of"]

_AUDIO: Final = ("audio_asset_pointer", "real_time_user_audio_video_asset_pointer")
_TEXT_MEMBERS: Final = ("text", "content", "result", "summary", "snippet")
_NO_LANGUAGE: Final = "unknown"
KNOWN: Final = frozenset(
    {
        "text",
        "multimodal_text",
        "code",
        "execution_output",
        "tether_quote",
        "tether_browsing_display",
        "sonic_webpage",
        "system_error",
        "thoughts",
        "reasoning_recap",
    }
)
_MARKS: Final = re.compile(
    "\ue200[^\ue200\ue201]*+\ue201|\u3010[^\u3010\u3011\u2020]*+\u2020[^\u3010\u3011]*+\u3011"
)
_MARK_STARTS: Final = ("\ue200", "\u3010")


def text_of(content: dict[str, Any]) -> str:
    """Give all text of a content: ``parts``, else ``text``, ``content``, ``result``."""
    parts = content.get("parts")
    if isinstance(parts, list):
        texts = [part if isinstance(part, str) else _part_text(part) for part in parts]
        return "\n".join(text for text in texts if text) or _member_text(content)
    return _member_text(content)


def _member_text(content: dict[str, Any]) -> str:
    for member in _TEXT_MEMBERS:
        value = content.get(member)
        if isinstance(value, str) and value:
            return value
    return ""


def _part_text(part: Any) -> str:
    return _member_text(part) if isinstance(part, dict) else ""


def system_text(content: dict[str, Any], metadata: dict[str, Any]) -> str:
    """Give the text of a system message, of custom instructions or of memories."""
    named = [
        value
        for member in ("user_profile", "user_instructions", "model_set_context")
        if isinstance(value := content.get(member), str) and value
    ]
    context = metadata.get("user_context_message_data")
    if not named and isinstance(context, dict):
        named = [value for value in context.values() if isinstance(value, str) and value]
    return "\n\n".join(named) or text_of(content)


def thoughts_of(content: dict[str, Any], identity: str | None) -> Reasoning | None:
    """Give the reasoning of a ``thoughts`` message: summaries with their text."""
    thoughts = content.get("thoughts")
    texts = []
    for thought in thoughts if isinstance(thoughts, list) else ():
        if isinstance(thought, dict):
            lines = [thought.get("summary"), thought.get("content")]
            texts.append("\n".join(line for line in lines if isinstance(line, str) and line))
    text = "\n\n".join(text for text in texts if text) or text_of(content)
    return Reasoning(text, {"id": identity} if identity else None) if text else None


def blocks_of(
    content: dict[str, Any], metadata: dict[str, Any], files: Files, ledger: Ledger, place: str
) -> list[Block]:
    """Give the blocks of a message; files that it names come last."""
    kind = content.get("content_type")
    parts = content.get("parts")
    blocks: list[Block] = []
    if isinstance(parts, list):
        for part in parts:
            if isinstance(part, str):
                if part:
                    blocks.append(Text(part))
            elif isinstance(part, dict):
                block = _part(part, metadata, files, ledger, place)
                if block is not None:
                    blocks.append(block)
            elif part is not None:
                ledger.note("malformed-block", place, kind=type(part).__name__)
    if not blocks and (text := _member_text(content)):
        blocks.append(Text(text))
    if kind != "text":
        _by_kind(kind, content, blocks, ledger, place)
    if metadata:
        _cite(metadata, blocks, ledger, place)
        if metadata.get("attachments"):
            blocks += _attached(metadata["attachments"], parts, files, ledger, place)
        if metadata.get("aggregate_result"):
            blocks += _drawn(metadata["aggregate_result"], files, ledger, place)
    return blocks


def _by_kind(
    kind: Any, content: dict[str, Any], blocks: list[Block], ledger: Ledger, place: str
) -> None:
    """Put the address of a web page in front, and count types that are not known.

    Texts of the content that are in no block (a page's summary, an error's name, the language of
    code) stay with the first one; of a type that is not known, all that is left.
    """
    known = not isinstance(kind, str) or kind in KNOWN
    member = next((name for name in _TEXT_MEMBERS if _is_text(content.get(name))), "parts")
    shown = {"content_type", "parts"}
    if any(type(block) is Text and block.text == content.get(member) for block in blocks):
        shown.add(member)
    url = content.get("url")
    if isinstance(url, str) and url:
        named = next((n for n in ("title", "domain") if _is_text(content.get(n))), "url")
        blocks.insert(0, Text(url if named == "url" else f"{content[named]} {url}"))
        shown |= {"url", named} | ({"domain"} if str(content.get("domain")) in url else set())
    left = {
        name: value
        for name, value in content.items()
        if name not in shown
        and (_is_text(value) if known else value)
        and (name, value) != ("language", _NO_LANGUAGE)
    }
    if left and blocks:
        extra = blocks[0].extra or {}
        blocks[0].extra = {**extra, "native": {**left, **extra.get("native", {})}}
    if not known:
        ledger.note("unknown-block", place, kind=kind[:40])


def left_unread(content: dict[str, Any]) -> bool:
    """Whether a content that gave no block says anything all the same, in whatever form."""
    return any(
        any(value) if isinstance(value, list) else value and value != _NO_LANGUAGE
        for name, value in content.items()
        if name != "content_type"
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _part(
    part: dict[str, Any], metadata: dict[str, Any], files: Files, ledger: Ledger, place: str
) -> Block | None:
    kind = part.get("content_type")
    if kind == "image_asset_pointer":
        return _image(part, metadata, files, ledger, place)
    if kind in _AUDIO:
        return _audio(part, files, ledger, place)
    text = _part_text(part)
    if kind == "audio_transcription":
        return Text(text) if text else None
    ledger.note("unknown-block", place, kind=kind[:40] if isinstance(kind, str) else "part")
    return Text(text, {"native": part}) if text else None


def _image(
    part: dict[str, Any], metadata: dict[str, Any], files: Files, ledger: Ledger, place: str
) -> Block:
    made = part.get("metadata")
    dalle = made.get("dalle") if isinstance(made, dict) else None
    prompt = dalle.get("prompt") if isinstance(dalle, dict) else None
    pointer = part.get("asset_pointer")
    key = asset_id(pointer)
    entries = metadata.get("attachments")
    name = next(
        (
            entry.get("name")
            for entry in (entries if key is not None and isinstance(entries, list) else ())
            if isinstance(entry, dict) and asset_id(entry.get("id")) == key
        ),
        None,
    )
    block = _picture(pointer, name, files, ledger, place)
    if isinstance(prompt, str) and prompt:
        block.extra = {**(block.extra or {}), "native": {"prompt": prompt}}
    return block


def _picture(pointer: Any, name: Any, files: Files, ledger: Ledger, place: str) -> Block:
    """Give an image by its pointer; ``name`` is what the person called it."""
    asset = files.load(pointer)
    if asset is not None:
        return image_or_file(ledger, place, data=asset.data, name=name or asset.name)
    reference = {"id": pointer} if isinstance(pointer, str) and pointer else None
    return image_or_file(ledger, place, name=name, reference=reference)


def _audio(part: dict[str, Any], files: Files, ledger: Ledger, place: str) -> Block:
    inner = part.get("audio_asset_pointer")
    about = inner if isinstance(inner, dict) else part
    pointer, form = about.get("asset_pointer"), about.get("format")
    asset = files.load(pointer)
    return file_block(
        ledger,
        place,
        kind="audio",
        name=asset.name if asset else None,
        media=f"audio/{form}" if isinstance(form, str) and form else None,
        data=asset.data if asset else None,
        identity=pointer,
        size=about.get("size_bytes"),
    )


def _cite(metadata: dict[str, Any], blocks: list[Block], ledger: Ledger, place: str) -> None:
    """Keep citations with the text; marks that references explain give way to what these show."""
    references = metadata.get("content_references")
    if not isinstance(references, list):
        references = []
    cited = metadata.get("citations")
    found = references + cited if isinstance(cited, list) and cited else references
    if not found or not blocks:
        return
    texts = [block for block in blocks if isinstance(block, Text)]
    holder = texts[0] if texts else blocks[0]
    holder.extra = {**(holder.extra or {}), "citations": found}
    ledger.note("citation-aside", place, len(found))
    if references:
        for block in texts:
            if any(mark in block.text for mark in _MARK_STARTS):
                block.text = _explained(block.text, references)


def _explained(text: str, references: list[Any]) -> str:
    """Put in the place of each mark what its reference shows (``alt``), which may be nothing.

    A reference names its mark (``matched_text``), and its place where this agrees with the text.
    Marks that no reference names stay. Linear in the text and the references.
    """
    placed: dict[int, tuple[str, str]] = {}
    named: dict[str, str] = {}
    for reference in references:
        mark = reference.get("matched_text") if isinstance(reference, dict) else None
        if not isinstance(mark, str) or not _MARKS.search(mark):
            continue
        alt = reference.get("alt")
        shown = alt if isinstance(alt, str) else ""
        start = reference.get("start_idx")
        if type(start) is int and 0 <= start < len(text) and text.startswith(mark, start):
            placed[start] = (mark, shown)
        named.setdefault(mark, shown)
    for match in _MARKS.finditer(text):
        if match[0] in named:
            placed.setdefault(match.start(), (match[0], named[match[0]]))
    pieces: list[str] = []
    done = 0
    for start in sorted(placed):
        mark, shown = placed[start]
        if start >= done:
            pieces += (text[done:start], shown)
            done = start + len(mark)
    return "".join(pieces) + text[done:]


def _attached(entries: Any, parts: Any, files: Files, ledger: Ledger, place: str) -> list[Block]:
    """Give a placeholder for each file that the message names and that is no part of it."""
    shown = {
        asset_id(part.get("asset_pointer"))
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict)
    }
    blocks: list[Block] = []
    for entry in entries if isinstance(entries, list) else (entries,):
        if not isinstance(entry, dict):
            ledger.note("malformed-block", place, kind=type(entry).__name__)
            continue
        identity = entry.get("id")
        key = asset_id(identity) or asset_id(entry.get("file_id"))
        if key is not None and key in shown:
            continue
        asset = files.load(key)
        block = file_block(
            ledger,
            place,
            name=entry.get("name"),
            media=entry.get("mime_type"),
            data=asset.data if asset else None,
            identity=identity,
            size=entry.get("size"),
        )
        blocks.append(block)
    return blocks


def _drawn(result: Any, files: Files, ledger: Ledger, place: str) -> list[Block]:
    """Give the images that a run of code made."""
    messages = result.get("messages") if isinstance(result, dict) else None
    return [
        _picture(message.get("image_url"), None, files, ledger, place)
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict) and message.get("message_type") == "image"
    ]
