"""Errors of stores become 503 responses, which sign nobody out."""

from __future__ import annotations

from fastapi_oidc.errors import Code, OIDCError, SessionError


class unavailable_as:  # noqa: N801 - a context manager reads like a function
    """Turn an exception of a store within the block into a SessionError with `code` (503)."""

    __slots__ = ("_code",)

    def __init__(self, code: Code) -> None:
        self._code = code

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        """Raise the SessionError. Errors of this library and cancellations pass unchanged."""
        if isinstance(error, Exception) and not isinstance(error, OIDCError):
            raise unavailable(self._code, error) from error


def unavailable(code: Code, error: Exception) -> SessionError:
    """The SessionError for an exception of a store."""
    return SessionError(code, f"the store raised {type(error).__name__}")
