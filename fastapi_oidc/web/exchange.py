"""One request or websocket of one OIDC instance: its session, and the cookies to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, ProtocolViolation
from fastapi_oidc.flows.resume import resume
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.origin import REFUSED_SIGNATURE, NeverFromARequest
from fastapi_oidc.session.stores import settled
from fastapi_oidc.web.cookie_header import own_cookies
from fastapi_oidc.web.routes import Role, RoutePaths
from fastapi_oidc.web.site import RequestData, RequestDataContext, Site

SCOPE_KEY = "fastapi_oidc"


@dataclass(frozen=True, slots=True)
class OIDCLocals(NeverFromARequest, Generic[Identity, RequestData]):
    """Who this request is from. All None when nobody is signed in.

    `data` is what `load_request_data` made, once for this request; it is never kept.
    """

    session: OIDCSession[Identity] | None = None
    data: RequestData | None = None

    def __class_getitem__(cls, types: object) -> object:
        """`OIDCLocals[User, Data]`, which FastAPI must not call either."""
        # A dataclass with slots is not the class that `super()` without arguments means.
        alias = super(OIDCLocals, cls).__class_getitem__(types)  # type: ignore[misc]
        alias.__signature__ = REFUSED_SIGNATURE
        return alias

    @property
    def identity(self) -> Identity | None:
        """The application's identity of the signed-in user."""
        return None if self.session is None else self.session.identity

    @property
    def is_authenticated(self) -> bool:
        """Whether somebody is signed in."""
        return self.session is not None


OIDCLocals.__signature__ = REFUSED_SIGNATURE  # type: ignore[attr-defined]  # of the class alone


class Exchange(Generic[Identity, RequestData]):
    """Loads the session at most once, and collects cookie changes until the answer starts."""

    def __init__(
        self, site: Site[Identity, RequestData], connection: HTTPConnection, paths: RoutePaths
    ) -> None:
        self.site, self.connection, self.paths = site, connection, paths
        self._changes: dict[str, CookieChange] = {}
        self._locals: OIDCLocals[Identity, RequestData] | None = None

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies of this instance that the browser sent."""
        return own_cookies(self.connection.scope["headers"], self.site.party.names)

    @property
    def origin(self) -> str:
        """Scheme and host of this application, without a slash at the end."""
        if self.site.origin is not None:
            return self.site.origin
        try:
            url = self.connection.base_url
        except ValueError:
            raise ProtocolViolation(Code.AUTHORIZATION_MALFORMED, "unreadable Host") from None
        if not url.netloc:
            raise ProtocolViolation(Code.AUTHORIZATION_MALFORMED, "no Host")
        scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
        return f"{scheme}://{url.netloc}"

    @property
    def is_loaded(self) -> bool:
        """Whether the answer may depend on who asks."""
        return self._locals is not None

    def url(self, role: Role) -> str:
        """The absolute URL of one of the library's routes; raises ConfigurationError."""
        return self.origin + self.paths.required(role)

    @contextmanager
    def owning(self) -> Iterator[None]:
        """An error that is raised inside belongs to this instance, which is to answer it."""
        try:
            yield
        except OIDCError as error:
            error.instance = error.instance or self.site.name
            raise

    async def locals(self) -> OIDCLocals[Identity, RequestData]:
        """Who this request is from; raises SessionError when a store cannot be asked."""
        if self._locals is None:
            with self.owning():
                resumed = await resume(self.site.party, self.site.refresher, self.cookies)
                self.record(resumed.changes)
                self._locals = OIDCLocals(resumed.session, await self._data(resumed.session))
        return self._locals

    def became(self, session: OIDCSession[Identity] | None) -> None:
        """The request signed somebody in or out: what was loaded for it is stale."""
        self._locals = OIDCLocals(session)

    def clear(self) -> None:
        """No session after this answer, not even by a refresh that is under way."""
        if self._locals is not None and self._locals.session is not None:
            self.site.refresher.end(self._locals.session)
        self.record(self.site.party.keeper.clearing())
        self.became(None)

    def record(self, changes: Iterable[CookieChange]) -> None:
        """Change these cookies with the answer; a later change of a cookie replaces an earlier."""
        self._changes.update((change.name, change) for change in changes)

    @property
    def has_changes(self) -> bool:
        """Whether there are cookie changes that no answer has taken yet."""
        return bool(self._changes)

    def taken_changes(self) -> list[CookieChange]:
        """The changes collected so far, which the caller is going to send."""
        changes = list(self._changes.values())
        self._changes.clear()
        return changes

    async def _data(self, session: OIDCSession[Identity] | None) -> RequestData | None:
        load = self.site.load_request_data
        if session is None or load is None:
            return None
        return await settled(load(RequestDataContext(session, self.connection)))


def exchange_of(connection: HTTPConnection, name: str | None = None) -> Exchange[Any, Any]:
    """The exchange that the middleware opened, of the instance `name` or of the only one.

    Raises ConfigurationError: configuration.middleware_missing or configuration.instance_ambiguous.
    """
    exchanges: dict[str, Exchange[Any, Any]] = connection.scope.get(SCOPE_KEY, {})
    if name is None and len(exchanges) > 1:
        raise ConfigurationError(
            Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
            f"this app has the OIDC instances {', '.join(exchanges)}; use a method of one of them",
        )
    if not exchanges or (name is not None and name not in exchanges):
        raise ConfigurationError(
            Code.CONFIGURATION_MIDDLEWARE_MISSING,
            "add the line: app.add_middleware(OIDCMiddleware, oidc=oidc)",
        )
    return next(iter(exchanges.values())) if name is None else exchanges[name]
