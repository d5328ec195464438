"""Files that browsers send, streamed: nothing is read before the user may send it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Final

from fastapi import HTTPException, Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from examples.console.account import oidc_of

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MOST_FIELDS: Final = 8192
"""Bytes of all fields of the form, with their headers."""


class Upload:
    """A form with one file, which is its last part.

    `check` gets the fields when the file begins, and raises to refuse it. `most` are the bytes that
    the file may have.
    """

    def __init__(self, file: BinaryIO, most: int, check: Callable[[Mapping[str, str]], None]):
        self._file, self._most, self._check = file, most, check
        self.fields: dict[str, str] = {}
        self.filename, self.size, self._read = "", 0, 0
        self._header = self._value = b""
        self._disposition: Mapping[bytes, bytes] = {}
        self._text, self._is_whole = b"", False

    async def receive(self, request: Request) -> None:
        """Reads the form from a request.

        Raises ValueError for another form, HTTPException if the user was signed out meanwhile.
        """
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise ValueError("this is no form with a file")
        parser = MultipartParser(options[b"boundary"], self._callbacks())
        try:
            async for chunk in request.stream():
                await asyncio.to_thread(parser.write, chunk)
        except FormParserError as error:
            raise ValueError("the form is cut off") from error
        if not self._is_whole:
            raise ValueError("the form is cut off")
        if not self.filename:
            raise ValueError("choose a file")
        if not await oidc_of(request).is_still_signed_in(request):
            raise HTTPException(401, "The file is not stored: you were signed out meanwhile.")

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._part_begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }

    def _end(self) -> None:
        self._is_whole = True

    def _part_begin(self) -> None:
        self._disposition, self._text = {}, b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._count(end - start)

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = parse_options_header(self._value)[1]
        self._header = self._value = b""

    def _headers_finished(self) -> None:
        if self.filename:
            raise ValueError("the file is the last part of the form")
        if b"filename" in self._disposition:
            self.filename = self._disposition[b"filename"].decode(errors="replace")
            self._check(self.fields)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if not self.filename:
            self._text += data[start:end]
            return self._count(end - start)
        self.size += end - start
        if self.size > self._most:
            raise ValueError(f"the file has more than {self._most >> 20} MiB")
        self._file.write(data[start:end])

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > MOST_FIELDS:
            raise ValueError("the form is too long")

    def _part_end(self) -> None:
        if not self.filename and (name := self._disposition.get(b"name")):
            self.fields[name.decode(errors="replace")] = self._text.decode(errors="replace")


def parts_of(file: BinaryIO, size: int = 1 << 18) -> Iterator[bytes]:
    """The rest of a file in parts; closes it."""
    with file:
        while part := file.read(size):
            yield part
