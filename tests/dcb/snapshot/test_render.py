"""A snapshot for reading."""

import pytest
from msgspec.structs import replace

from converters.errors import BadInput
from dcb.snapshot.document import serialize
from dcb.snapshot.profile import PLUGIN
from dcb.snapshot.render import lines, to_object
from tests.dcb.snapshot.test_document_published import SMALL


def test_lines() -> None:
    shown = list(lines(serialize(SMALL).encode()))
    assert shown[0] == "Cache"
    for line in (
        "  integrity: checksum fits",
        "  created: 2026-03-01T00:00:00.000Z",
        "  weight: 1.5",
        "[v-001] decision user m1 1970-01-01T00:00:00.005Z",
        "    We use Redis.",
        "### Goal",
        "- [style] verbosity (explicit): be brief",
    ):
        assert line in shown
    assert "  profile: plugin" in lines(serialize(SMALL, PLUGIN).encode())


def test_what_does_not_fit_is_shouted() -> None:
    text = serialize(SMALL)
    shown = "\n".join(lines(text.replace("Redis", "MySQL").encode()))
    assert "CHECKSUM DOES NOT FIT" in shown
    assert "CRLF are folded" in "\n".join(lines(text.replace("\n", "\r\n").encode()))


def test_the_object_is_that_of_the_document() -> None:
    held = to_object(serialize(SMALL).encode())
    assert held.verbatim == SMALL.verbatim
    assert held.meta == replace(SMALL.meta, checksum=held.meta.checksum)
    with pytest.raises(BadInput):
        to_object(b"nothing")
