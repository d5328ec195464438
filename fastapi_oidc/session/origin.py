"""Types that FastAPI must never read from a request: sessions, tokens and locals.

FastAPI reads the parameters of an endpoint from the request if pydantic can validate their types.
With a forgotten `Depends(...)` a client could send any session. So pydantic refuses these types,
except for the codec, which reads sealed data.
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
    """Within the block, pydantic can build validators of sessions and tokens, for sealed data."""
    token = _reading_back.set(True)
    try:
        yield
    finally:
        _reading_back.reset(token)


class NeverFromARequest:
    """Base class of types that FastAPI must not read from a request.

    An endpoint with such a parameter raises ConfigurationError (configuration.invalid) when its
    route is defined. The error says how to write the parameter.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        """Raises ConfigurationError, except for the codec and while the class is created."""
        if not (_reading_back.get() or _is_being_made(cls)):
            _refuse(cls)
        with reading_back():
            return handler(source)


class _Refused:
    """The type of the parameter that FastAPI finds when such a class is a dependency."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> NoReturn:
        _refuse(cls)


REFUSED_SIGNATURE: Final = Signature(
    [Parameter("session", Parameter.KEYWORD_ONLY, annotation=_Refused)]
)
"""The signature for `Annotated[Tokens, Depends()]`: FastAPI reads a class's parameters there."""


def _is_being_made(cls: type) -> bool:
    """Whether pydantic calls for the first time, because it is creating the class.

    A session type with a forward reference is built again when the reference is resolved, but not
    by this library.
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
