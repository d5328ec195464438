"""Errors of stores become 503 responses, which sign nobody out."""

from __future__ import annotations

import asyncio

from fastapi_oidc.errors import Code, OIDCError, SessionError


class unavailable_as:  # noqa: N801 - a context manager reads like a function
    """Turn an exception of a store within the block into a SessionError with `code` (503).

    So does a CancelledError that a store raises although nobody has cancelled the task.
    """

    __slots__ = ("_code",)

    def __init__(self, code: Code) -> None:
        self._code = code

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        """Raise the SessionError. Errors of this library pass unchanged."""
        if error is None or isinstance(error, OIDCError):
            return
        if isinstance(error, Exception) or _is_of_the_store(error):
            explanation = f"the store raised {type(error).__name__}"
            raise SessionError(self._code, explanation) from error


def _is_of_the_store(error: BaseException) -> bool:
    """Whether `error` is a cancellation of something within the store."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and not task.cancelling()
