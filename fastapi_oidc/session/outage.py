"""A store that fails is an outage (503), never a reason to sign anybody out."""

from __future__ import annotations

from fastapi_oidc.errors import Code, OIDCError, SessionError


class unavailable_as:  # noqa: N801 - a context manager reads like a function
    """What a store raises within the block becomes a SessionError with `code`, a 503 response."""

    __slots__ = ("_code",)

    def __init__(self, code: Code) -> None:
        self._code = code

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        """Raise the SessionError; errors of this library and cancellations pass."""
        if isinstance(error, Exception) and not isinstance(error, OIDCError):
            raise unavailable(self._code, error) from error


def unavailable(code: Code, error: Exception) -> SessionError:
    """The error for what a store raised."""
    return SessionError(code, f"the store raised {type(error).__name__}")
