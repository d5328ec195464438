"""Files that browsers send, read after the user may send them, and moved to where they belong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final

from fastapi import HTTPException
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException as StarletteHTTPException

from examples.console.account import oidc_of
from examples.console.view import Visit

MOST_FIELDS: Final = 8
LONGEST_FIELD: Final = 8192


@asynccontextmanager
async def form_with_file(visit: Visit) -> AsyncIterator[tuple[FormData, UploadFile]]:
    """The form of a request, and its file, which is closed after the block.

    Raises ValueError for another form, HTTPException if the user was signed out meanwhile.
    """
    request, oidc = visit.request, oidc_of(visit.request)
    limits = {"max_files": 1, "max_fields": MOST_FIELDS, "max_part_size": LONGEST_FIELD}
    try:
        form = await request.form(**limits)
    except StarletteHTTPException as error:
        raise ValueError(error.detail) from error
    try:
        token, file = form.get("csrf_token"), form.get("file")
        oidc.check_csrf_token(visit.session, token if isinstance(token, str) else None)
        if not isinstance(file, UploadFile) or not file.filename:
            raise ValueError("choose a file")  # or it was cut off
        if not await oidc.is_still_signed_in(request):
            raise HTTPException(401, "The file is not stored: you were signed out meanwhile.")
        yield form, file
    finally:
        await form.close()


def parts_of(file: BinaryIO, size: int = 1 << 18) -> Iterator[bytes]:
    """The rest of a file in parts; closes it."""
    with file:
        while part := file.read(size):
            yield part
