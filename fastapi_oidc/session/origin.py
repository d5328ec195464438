"""Sessions, tokens and locals come from this library alone, never out of a request.

FastAPI makes the parameters of an endpoint out of the request whenever pydantic can read their
type, so that a forgotten `Depends(...)` would let anybody write the session they like. Therefore
pydantic cannot read these types, but for the codec that reads what was sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import Parameter, Signature
from typing import Any, Final, NoReturn

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from fastapi_oidc.errors import Code, ConfigurationError

_reading_back: ContextVar[bool] = ContextVar("fastapi_oidc_reading_back", default=False)


@contextmanager
def reading_back() -> Iterator[None]:
    """Inside, pydantic learns to read sessions and tokens: those that were sealed."""
    token = _reading_back.set(True)
    try:
        yield
    finally:
        _reading_back.reset(token)


class NeverFromARequest:
    """A type that no endpoint can have as a parameter of its own.

    The route's definition raises ConfigurationError (configuration.invalid) with what to write.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        """Raises ConfigurationError, but for the codec and while the class itself is made."""
        if not (_reading_back.get() or _is_being_made(cls)):
            _refuse(cls)
        with reading_back():
            return handler(source)


class _Refused:
    """What FastAPI finds when a class is its own dependency."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> NoReturn:
        _refuse(cls)


REFUSED_SIGNATURE: Final = Signature(
    [Parameter("session", Parameter.KEYWORD_ONLY, annotation=_Refused)]
)
"""For `Annotated[Tokens, Depends()]`: FastAPI calls a class with what its signature names."""


def _is_being_made(cls: type) -> bool:
    """Whether pydantic asks for the first time, as it makes the class.

    A session of a forward reference is asked again when the reference is known; not by us.
    """
    return hasattr(cls, "__pydantic_complete__") and "__pydantic_core_schema__" not in vars(cls)


def _refuse(cls: type) -> NoReturn:
    name = "sessions, tokens and locals" if cls is _Refused else cls.__name__
    raise ConfigurationError(
        Code.CONFIGURATION_INVALID,
        f"{name} cannot be read from a request or returned as a response. Write as a parameter "
        "session: Annotated[OIDCSession[User], Depends(oidc.require_auth)] or "
        "locals: Annotated[OIDCLocals, Depends(oidc.locals)], and return PublicSession.of(session)",
    )
