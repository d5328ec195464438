"""The session, identity and data of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NoReturn

from fastapi_oidc.errors import SessionError, misconfigured
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.origin import REFUSED_SIGNATURE, NeverFromARequest
from fastapi_oidc.web.runtime import RequestData


@dataclass(frozen=True, slots=True)
class OIDCLocals(NeverFromARequest, Generic[Identity, RequestData]):
    """The user of a request. Without a signed-in user, `session`, `identity` and `data` are None.

    `data` is the result of `load_request_data` for this request; it is never stored. `ended` says
    why the browser's session has ended. `unavailable` is set for a session that cannot be used
    right now, because its access token has expired and the provider does not respond.
    """

    session: OIDCSession[Identity] | None = None
    data: RequestData | None = None
    ended: EndReason | None = None
    unavailable: SessionError | None = field(default=None, repr=False)

    def __class_getitem__(cls, types: object) -> object:
        """`OIDCLocals[User, Data]`, which FastAPI must refuse as a dependency too."""
        # `super()` without arguments does not work in a dataclass with slots.
        alias = super(OIDCLocals, cls).__class_getitem__(types)  # type: ignore[misc]
        alias.__signature__ = REFUSED_SIGNATURE
        return alias

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say what there is, for names of other libraries."""
            has = "session, identity, data, ended, unavailable and is_authenticated"
            raise AttributeError(f"OIDCLocals has no {name!r}: it has {has}", name=name, obj=self)

    def __bool__(self) -> bool:
        """Whether the request has a signed-in user."""
        return self.is_authenticated

    @property
    def identity(self) -> Identity | None:
        """The application's identity of the signed-in user."""
        return None if self.session is None else self.session.identity

    @property
    def is_authenticated(self) -> bool:
        """Whether the request has a signed-in user."""
        return self.session is not None


def usable_session(locals: OIDCLocals[Identity, RequestData]) -> OIDCSession[Identity] | None:
    """The session, None without one; raises SessionError while it is unavailable."""
    if locals.unavailable is not None:
        raise locals.unavailable
    return locals.session


class TooEarly:
    """In place of the locals in middlewares around OIDCMiddleware, which run before it."""

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def __bool__(self) -> NoReturn:
        self.__getattr__("is_authenticated")

    def __getattr__(self, name: str) -> NoReturn:
        """Raises ConfigurationError: nobody has read the session yet."""
        raise misconfigured(
            f"request.state.{self._instance}.{name} is read in a middleware that was added after "
            "OIDCMiddleware and runs before it: add OIDCMiddleware last"
        )


OIDCLocals.__signature__ = REFUSED_SIGNATURE  # type: ignore[attr-defined]  # of the class alone
