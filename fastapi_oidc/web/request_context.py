"""One request or websocket of one OIDC instance: its session, and the cookies of its response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Generic

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Scope

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import (
    Code,
    ConfigurationError,
    OIDCError,
    ProtocolViolation,
    SessionError,
)
from fastapi_oidc.flows.callback import SignedIn
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import (
    NewSession,
    PendingCookie,
    Resumed,
    SetCookie,
    SignedOut,
    cookie_changes,
    current,
    pending_cookie,
    refresh_now,
    resume,
    unless_ended,
)
from fastapi_oidc.flows.revocation import end, end_current
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.grants.holders import response_started
from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.authorization_header import token_scheme_in
from fastapi_oidc.web.cookie_header import own_cookies
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.routes import (
    REGISTRATION,
    Entrance,
    Role,
    RoutePaths,
    RouteTemplates,
)
from fastapi_oidc.web.runtime import RequestData, RequestDataContext, Runtime


class Owning:
    """A block whose errors get the name of an instance."""

    __slots__ = ("_instance",)

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OIDCError):
            _own(self._instance, error)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _own(instance: str, error: OIDCError) -> None:
    if error.instance is None:
        error.instance = instance


class RequestContext(Generic[Identity, RequestData]):
    """Loads the session at most once, and collects the cookie changes of the response."""

    def __init__(
        self,
        runtime: Runtime[Identity, RequestData],
        scope: Scope,
        entrance: Entrance,
        routes: RouteTemplates,
    ) -> None:
        self.runtime, self.scope = runtime, scope
        self._entrance, self._routes = entrance, routes
        self._changes: dict[str, CookieChange] = {}
        self._pending: PendingCookie[Identity] | None = None
        self._is_cleared = self._has_ended = False
        self._begun: Live[Identity] | None = None
        self._changing: set[asyncio.Task[Live[Identity]]] = set()
        self.step_ups: list[StepUp] = []
        """The requirements of the guards that have run."""
        self.is_open = True
        """Whether the response has not started, so cookies can still be sent."""
        self.known: OIDCLocals[Identity, RequestData] | None = None
        """The locals, once they are loaded."""

    @cached_property
    def connection(self) -> HTTPConnection:
        """The request or websocket as a Starlette object."""
        return HTTPConnection(self.scope)

    @property
    def paths(self) -> RoutePaths:
        """The paths of this instance's routes in the app."""
        return self.paths_of(self.runtime.party)

    def paths_of(self, party: RelyingParty[Identity]) -> RoutePaths:
        """The paths of the routes of one registration."""
        return RoutePaths(self._routes, self._entrance.root_path, party.settings.name)

    def registration(self, connection: HTTPConnection) -> RelyingParty[Identity]:
        """The registration that the path names; HTTPException (404) for another name.

        Raises ConfigurationError if there are several, and the path names none.
        """
        name, party = connection.path_params.get(REGISTRATION), self.runtime.party
        if name is None and party.is_one_of_several:
            explanation = "with several registrations, this path has the parameter {registration}"
            raise ConfigurationError(Code.CONFIGURATION_ROUTE_MISSING, explanation)
        found = party if name is None else party.named(name)
        if found is None:
            raise HTTPException(404, headers=NO_STORE)
        return found

    @property
    def path(self) -> str:
        """The requested path in the app that has the middleware."""
        return self._entrance.path

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies of this instance in the request; none if it has an access token for an API.

        The session of a request with a token is ignored.
        """
        if self.runtime.engine.apis and self.brings_token:
            return {}
        return own_cookies(self.scope["headers"], self.runtime.party.sessions.names)

    @cached_property
    def brings_token(self) -> bool:
        """Whether the request has an access token, valid or not."""
        return token_scheme_in(self.scope["headers"]) is not None

    @property
    def origin(self) -> str:
        """Scheme and host of this application, without a trailing slash."""
        if self.runtime.origin is not None:
            return self.runtime.origin
        try:
            url = self.connection.base_url.components
        except ValueError:
            raise ProtocolViolation(Code.AUTHORIZATION_MALFORMED, "unreadable Host") from None
        if not url.netloc:
            raise ProtocolViolation(Code.AUTHORIZATION_MALFORMED, "no Host")
        scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
        return f"{scheme}://{url.netloc}"

    def url(self, role: Role, party: RelyingParty[Identity] | None = None) -> str:
        """The absolute URL of one of the library's routes; raises ConfigurationError."""
        return self.origin + self.paths_of(party or self.runtime.party).required(role)

    @property
    def logged_out_url(self) -> str | None:
        """The URL of the library's page after a logout; None if it is not mounted."""
        return None if self.paths.find(Role.LOGGED_OUT) is None else self.url(Role.LOGGED_OUT)

    def owning(self) -> Owning:
        """Errors that are raised within the block get this instance's name."""
        return Owning(self.runtime.name)

    def own(self, error: OIDCError) -> None:
        """Like `owning`, for an error that was already raised, in code of every request."""
        _own(self.runtime.name, error)

    async def locals(self, *, active: bool = True) -> OIDCLocals[Identity, RequestData]:
        """The locals of the request; raises SessionError when a store is unavailable.

        A request that is not `active` does not count for the idle timeout.
        """
        if self.known is not None:
            return self.known
        try:
            self._require_trusted_origin()
            resumed = await resume(self.runtime.party, self.cookies, active=active)
            return await self._apply(resumed)
        except OIDCError as error:
            self.own(error)
            raise

    @property
    def is_of_trusted_origin(self) -> bool:
        """Whether the request may use the browser's session (RFC 6455 10.2).

        Browsers let pages of any origin open websockets, send cookies with them, and let the pages
        read the messages. A client that sends no Origin is not a browser.
        """
        if self.scope["type"] != "websocket":
            return True
        origin = self.connection.headers.get("origin")
        return origin in (None, self.origin, *self.runtime.trusted_origins)

    async def refresh(self) -> OIDCLocals[Identity, RequestData]:
        """Like `locals`, with new tokens; raises SessionError when they are unavailable."""
        with self.owning():
            if self._is_cleared:
                raise SessionError(Code.SESSION_REQUIRED, "this request has cleared its session")
            self._require_trusted_origin()
            party = self.runtime.party
            if not (party.sessions.in_store or self.is_open):
                raise response_started()
            return await self._apply(await refresh_now(party, self.cookies))

    async def current(self) -> Live[Identity] | None:
        """The request's current session, None if it has ended. It is not refreshed."""
        party, pending = self.runtime.party, self._pending
        if self._is_cleared:
            return None
        if isinstance(pending, NewSession | SetCookie):
            return unless_ended(party, await party.sessions.judge_again(pending.live))
        return await current(party, self.cookies)

    async def change(
        self,
        live: Live[Identity],
        change: Callable[[Live[Identity]], Awaitable[Live[Identity]]],
    ) -> Live[Identity]:
        """The result of `change` for `live`. The response waits for it and sends its cookie."""
        task = asyncio.create_task(self._change(live, change))
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)
        return await asyncio.shield(task)

    async def _change(
        self,
        live: Live[Identity],
        change: Callable[[Live[Identity]], Awaitable[Live[Identity]]],
    ) -> Live[Identity]:
        made = await change(live)
        if self._is_cleared:
            raise SessionError(Code.SESSION_SIGNED_OUT, "this request has cleared its session")
        if isinstance(self._pending, NewSession):
            self._pending = NewSession(made)
        elif not isinstance(self._pending, SignedOut):
            self._pending = pending_cookie(self.runtime.party, made) or self._pending
        if self.known is not None and self.known.session is not None:
            self._set_locals(replace(self.known, session=made.session))
        return made

    async def is_still_signed_in(self) -> bool:
        """Whether the request's session has not ended, as far as is known now."""
        with self.owning():
            if self._is_cleared:
                return False
            self._require_trusted_origin()
            return await current(self.runtime.party, self.cookies) is not None

    async def note_login(self, outcome: SignedIn[Identity], *, with_data: bool) -> None:
        """Note that the request signed in; `with_data` also loads the request's data.

        If loading fails, a new session is ended; a session from before continues.
        """
        continues = outcome.session.generation > 0  # a silent login, or a step-up
        is_new = not (continues or outcome.replayed)
        if outcome.live is not None:
            self._pending = (NewSession if is_new else SetCookie)(outcome.live)
        try:
            data = await self._data(outcome.session) if with_data else None
        except BaseException:
            if is_new:
                await self.abandon()
            raise
        self._set_locals(OIDCLocals(outcome.session, data))

    async def abandon(self) -> None:
        """End the session of the login that this request completed."""
        if isinstance(self._pending, NewSession | SetCookie):
            await end(self.runtime.party, self._pending.live.session, "signed_out")
        self.note_sign_out()

    def note_sign_out(self) -> None:
        """Note that the request signed out."""
        self._pending = SignedOut()
        self._set_locals(OIDCLocals())

    def clear(self) -> None:
        """End the session with this response, even if a refresh is under way.

        The end is recorded everywhere even if the browser disconnects: by a separate task or, if
        the caller is a thread, which cannot start one, with the response or at the end of the
        request. Raises SessionError (session.cross_site) for a websocket from an origin that is not
        trusted.
        """
        with self.owning():
            self._require_trusted_origin()
        party, session = self.runtime.party, None if self.known is None else self.known.session
        if session is not None:
            party.sessions.endings.end_here(session.id, "signed_out")
        if isinstance(self._pending, NewSession | SetCookie):
            self._begun = self._pending.live
        self._is_cleared, self._has_ended = True, False
        self.note_sign_out()
        if _is_in_event_loop():
            self.runtime.engine.sign_outs.start(self, self._end_session)

    def end_cleared(self) -> None:
        """Record the end of a session that a thread cleared after the response had started."""
        if self._is_cleared and not self._has_ended:
            self.runtime.engine.sign_outs.start(self, self._end_session)

    def record(self, changes: Iterable[CookieChange]) -> None:
        """Send these cookie changes with the response; the last change of each cookie counts."""
        self._changes.update((change.name, change) for change in changes)

    @property
    def has_changes(self) -> bool:
        """Whether there may be cookie changes to send."""
        if not (self._changes or self._pending is not None or self._changing):
            return False
        return not (self.runtime.engine.apis and self.brings_token)

    async def take_changes(self) -> list[CookieChange]:
        """Take the current cookie changes, for the caller to send."""
        if self._changing:
            await asyncio.wait(self._changing)
        if self._is_cleared:
            await self.runtime.engine.sign_outs.run(self, self._end_session)
        pending, self._pending = self._pending, None
        if pending is not None:
            self.record(await cookie_changes(self.runtime.party, pending))
        changes = list(self._changes.values())
        self._changes.clear()
        return changes

    def _require_trusted_origin(self) -> None:
        """Raise SessionError (session.cross_site) for a websocket from an untrusted origin."""
        if not self.is_of_trusted_origin:
            explanation = "the websocket was opened from another origin"
            raise SessionError(Code.SESSION_CROSS_SITE, explanation)

    async def _end_session(self) -> None:
        """End the cleared session, in this process and everywhere else."""
        if not self._has_ended:
            if self._begun is not None:
                await end(self.runtime.party, self._begun.session, "signed_out")
            await end_current(self.runtime.party, self.cookies)
            self._has_ended = True

    async def _apply(self, resumed: Resumed[Identity]) -> OIDCLocals[Identity, RequestData]:
        session, pending, ended, unavailable = resumed
        self._pending = pending or self._pending
        is_data_due = session is not None and self.runtime.engine.load_request_data is not None
        data = await self._data(session) if is_data_due else None
        return self._set_locals(OIDCLocals(session, data, ended, unavailable))

    def _set_locals(
        self, locals: OIDCLocals[Identity, RequestData]
    ) -> OIDCLocals[Identity, RequestData]:
        """Set `locals` as the request's locals, also in the request's state."""
        self.known = locals
        self.scope.setdefault("state", {})[self.runtime.name] = locals
        return locals

    async def _data(self, session: OIDCSession[Identity] | None) -> RequestData | None:
        load = self.runtime.engine.load_request_data
        if session is None or load is None:
            return None
        return await called(load, RequestDataContext(session, self.connection))
