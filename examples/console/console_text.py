"""The bytes of a guest's console as text with colours."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from examples.console.rendition import Rendition

BEFORE: Final = 4096
"""So many bytes before the first that is shown tell in which colours it is."""
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
"""Colours, cursor movements and titles of terminals (ECMA-48 5.4 and 5.6)."""
_UNFINISHED: Final = re.compile(r"\x1b[^\n]{0,80}\Z")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What no page shows; line feeds and tabs stay."""


class Run(NamedTuple):
    """A piece of text and the CSS classes for it."""

    text: str
    classes: str


class ConsoleText:
    """Makes text of what a guest writes, piece by piece, without what moves a terminal's cursor.

    Bytes that are not UTF-8 become U+FFFD; what a piece cuts through is kept for the next one, and
    colours hold until the guest changes them.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._rendition = Rendition()

    def feed(self, received: bytes) -> Sequence[Run]:
        """The text that is complete with these bytes, neighbours of one look in one run."""
        pieces = self._pieces(self._held + self._decoder.decode(received))
        shown = (Run(_CONTROL.sub("", text), classes) for text, classes in pieces)
        by_look = groupby((run for run in shown if run.text), key=lambda run: run.classes)
        return [Run("".join(run.text for run in runs), classes) for classes, runs in by_look]

    def _pieces(self, text: str) -> Iterator[Run]:
        """What stands between the sequences; the end of `text` is held if it may be half of one."""
        begin = 0
        for sequence in _SEQUENCE.finditer(text):
            yield Run(text[begin : sequence.start()], self._rendition.classes)
            if sequence[2] == "m":
                self._rendition = self._rendition.after(sequence[1])
            begin = sequence.end()
        unfinished = _UNFINISHED.search(text, begin)
        end = unfinished.start() if unfinished else len(text)
        self._held = text[end:]
        yield Run(text[begin:end], self._rendition.classes)
