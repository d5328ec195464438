"""The bytes of a guest's console as plain text."""

from __future__ import annotations

import codecs
import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
"""Colours, cursor movements and titles of terminals (ECMA-48 5.4 and 5.6)."""
_UNFINISHED: Final = re.compile(r"\x1b[^\n]{0,80}\Z")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What no page shows; line feeds and tabs stay."""


class ConsoleText:
    """Makes text of what a guest writes, piece by piece, without what moves a terminal's cursor.

    Bytes that are not UTF-8 become U+FFFD; what a piece cuts through is kept for the next one.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, received: bytes) -> str:
        """The text that is complete with these bytes."""
        text = _SEQUENCE.sub("", self._held + self._decoder.decode(received))
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        return _CONTROL.sub("", text[: len(text) - len(self._held)])
