"""One request or websocket at one OIDCMiddleware: its session, and the cookies of its response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.types import Scope

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, SessionError, misconfigured
from fastapi_oidc.flows import resume
from fastapi_oidc.flows.callback import SignedIn
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import end, end_current
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.grants.grants import Change, require_session, response_started
from fastapi_oidc.protocol.access_token import StepUp
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.model import AnySession
from fastapi_oidc.web.misuse import Call, Dependency, Use
from fastapi_oidc.web.requests import OwnRequest, has_cookie
from fastapi_oidc.web.runtime import OIDCLocals, RequestDataContext, Unread

_NOBODY: OIDCLocals[Any, Any] = OIDCLocals()
_EXCLUDED: Final = (
    "below `exclude` of OIDCMiddleware, where no session is loaded: await oidc.get_locals(request)"
)

_AGAIN: Final = "it is as the response began: is_still_signed_in says whether it has ended since"


class RequestContext(OwnRequest):
    """Loads the session at most once, and collects the cookie changes of the response.

    It is also the `Holder` of the session.
    """

    known: OIDCLocals[Any, Any] | None = None
    """The locals, once they are loaded."""
    is_open = True
    """Whether the response has not started, so cookies can still be sent."""
    is_over = False
    """Whether the application has served it. A task that it started may keep it."""
    is_guarded = False
    """Whether a guard has asked for its session."""
    step_ups: tuple[StepUp, ...] = ()
    """The requirements of the guards that have run."""

    _changes: tuple[CookieChange, ...] = ()
    _pending: resume.PendingCookie | None = None
    _begun: Live | None = None
    _is_cleared = _has_ended = _is_read = False
    _changing: tuple[asyncio.Task[Live], ...] = ()
    _uses: tuple[Use, ...] = ()

    # Its session

    async def registration_of_session(self) -> RelyingParty | None:
        """The registration of the browser's session; None without one, if there are several."""
        if not self.party.is_one_of_several:
            return self.party
        live = await resume.current(self.party, self.cookies)
        return None if live is None else self.party.of(live.session)

    async def load(self) -> None:
        """Load the locals if the request has the instance's session cookie."""
        state = self.scope.setdefault("state", {})
        state[self.name] = _NOBODY
        if self._runtime is None or not has_cookie(self.scope["headers"], self._runtime.cookie):
            return
        if self._routes.excludes(self.path):
            state[self.name] = Unread(self.name, _EXCLUDED)
            return
        if self.path not in self._routes and self.is_of_trusted_origin(self.scope):
            resumed = await resume.resume(self._runtime.party, self.cookies, active=True)
            await self._apply(resumed)

    async def locals(self, *, active: bool = True) -> OIDCLocals[Any, Any]:
        """The locals of the request; raises SessionError when a store is unavailable.

        A request that is not `active` does not count for the idle timeout.
        """
        if self.known is not None or self._runtime is None:
            if self._is_read and self.known:
                self.party.announcer.advise("get_session", _AGAIN)
            self._is_read = not self.is_open
            return OIDCLocals() if self.known is None else self.known
        self.require_trusted_origin(self.scope)
        resumed = await resume.resume(self._runtime.party, self.cookies, active=active)
        return await self._apply(resumed)

    async def refresh(self) -> OIDCLocals[Any, Any]:
        """Like `locals`, with new tokens; raises SessionError when they are unavailable."""
        if self._is_cleared:
            raise SessionError(Code.SESSION_REQUIRED, "this request has cleared its session")
        self.require_trusted_origin(self.scope)
        if not (self.party.sessions.in_store or self.is_open):
            raise response_started()
        return await self._apply(await resume.refresh_now(self.party, self.cookies))

    async def is_still_signed_in(self) -> bool:
        """Whether the request's session has not ended, as far as is known now."""
        if self._is_cleared:
            return False
        self.require_trusted_origin(self.scope)
        return await resume.current(self.party, self.cookies) is not None

    async def current(self) -> Live:
        """See `Holder`. The session is not refreshed."""
        pending, live = self._pending, None
        if isinstance(pending, Live):
            found = await self.party.sessions.judge_again(pending)
            live = resume.unless_ended(self.party, found)
        elif not self._is_cleared:
            live = await resume.current(self.party, self.cookies)
        return require_session(live)

    async def change(self, change: Change) -> Live:
        """See `Holder`. The response waits for the change and sends its cookie."""
        live = await self.current()
        if not self.is_open:
            raise response_started()
        task = asyncio.create_task(self._change(live, change))
        self._changing = (*self._changing, task)
        return await asyncio.shield(task)

    async def _change(self, live: Live, change: Change) -> Live:
        made = await change(live)
        if self._is_cleared:
            raise SessionError(Code.SESSION_SIGNED_OUT, "this request has cleared its session")
        if isinstance(self._pending, Live):
            self._pending = made
        elif not isinstance(self._pending, resume.SignedOut):
            self._pending = resume.pending_cookie(self.party, made) or self._pending
        if self.known is not None and self.known.session is not None:
            self._set_locals(replace(self.known, session=made.session))
        return made

    async def note_login(self, outcome: SignedIn[Any], *, with_data: bool) -> None:
        """Note that the request signed in; `with_data` also loads the request's data.

        If loading fails, a new session is ended; a session from before continues.
        """
        continues = outcome.session.generation > 0  # a silent login, or a step-up
        is_new = not (continues or outcome.replayed)
        self._begun = outcome.live
        if outcome.live is not None:
            self._pending = outcome.live
        try:
            data = await self._data(outcome.session) if with_data else None
        except BaseException:
            if is_new:
                await self.abandon()
            raise
        if not isinstance(self._pending, resume.SignedOut):  # the data may have cleared the session
            self._set_locals(OIDCLocals(outcome.session, data))

    async def abandon(self) -> None:
        """End the session of the login that this request completed."""
        if isinstance(self._pending, Live):
            await end(self.party, self._pending.session, "signed_out")
        self.note_sign_out()

    def note_sign_out(self) -> None:
        """Note that the request signed out."""
        self._pending = resume.SignedOut()
        self._set_locals(OIDCLocals())

    def clear(self) -> None:
        """End the session with this response, even if a refresh is under way.

        The end is recorded everywhere even if the browser disconnects: by a separate task or, if
        the caller is a thread, which cannot start one, with the response or at the end of the
        request. Raises SessionError (session.cross_site) for a websocket from an origin that is not
        trusted.
        """
        self.require_trusted_origin(self.scope)
        if self.known is not None and self.known.session is not None:
            self.party.sessions.endings.end_here(self.known.session.id, "signed_out")
        self._is_cleared, self._has_ended = True, False
        self.note_sign_out()
        with suppress(RuntimeError):  # of a thread, which has no event loop
            self.engine.sign_outs.start(self, self._end_session)

    def require_trusted_origin(self, scope: Scope) -> None:
        """Raise SessionError (session.cross_site) for a page of an untrusted origin.

        `scope` is that of the endpoint: a middleware may have changed the method.
        """
        if not self.is_of_trusted_origin(scope):
            explanation = "a page of another origin, which is not in trusted_origins, sent it"
            raise SessionError(Code.SESSION_CROSS_SITE, explanation)

    async def _end_session(self) -> None:
        """End the cleared session, in this process and everywhere else."""
        if not self._has_ended:
            if self._begun is not None:
                await end(self.party, self._begun.session, "signed_out")
            await end_current(self.party, self.cookies)
            self._has_ended = True

    async def _apply(self, resumed: resume.Resumed) -> OIDCLocals[Any, Any]:
        session, pending, ended, unavailable = resumed
        if not self._is_cleared:
            self._pending = pending or self._pending
        data = None
        if session is not None and self.engine.load_request_data is not None:
            data = await self._data(session)
        is_over = self._is_cleared  # perhaps meanwhile
        return self._set_locals(
            OIDCLocals() if is_over else OIDCLocals(session, data, ended, unavailable)
        )

    def _set_locals(self, locals: OIDCLocals[Any, Any]) -> OIDCLocals[Any, Any]:
        """Set `locals` as the request's locals, also in the request's state."""
        self.known = locals
        self.scope.setdefault("state", {})[self.name] = locals
        return locals

    async def _data(self, session: AnySession | None) -> Any:
        load = self.engine.load_request_data
        if session is None or load is None:
            return None
        return await called(load, RequestDataContext(session, self.connection))

    # Its response

    def note(self, use: Use, *, instead_of: object = None) -> None:
        """Remember a guard until it is called, a call until it is awaited, a redirect until it is
        sent.
        """
        kept = (each for each in self._uses if not each.is_used and each is not instead_of)
        self._uses = (*kept, use)

    def require_used(self, *, lets_in: bool = True) -> None:
        """Raise ConfigurationError for a call without `await`, or a dropped redirect.

        A response that `lets_in` nobody needs no more guards.
        """
        if not lets_in:
            self._uses = tuple(each for each in self._uses if not isinstance(each, Dependency))
        for fault in self.faults():
            raise misconfigured(f"{fault}. The response of the endpoint was not sent")

    def faults(self) -> list[str]:
        """What is wrong with the calls and redirects of the request that are lost."""
        lost = [each for each in self._uses if not each.is_used]
        self._uses = ()
        for each in lost:
            if isinstance(each, Call):
                each.close()  # so Python does not warn of it as well
        where = getattr(self.scope.get("endpoint"), "__qualname__", self.path)
        return [f"{where}: {each.fault}" for each in lost]

    def record(self, changes: Iterable[CookieChange]) -> None:
        """Send these cookie changes with the response; the last change of each cookie counts."""
        self._changes = (*self._changes, *changes)

    @property
    def has_changes(self) -> bool:
        """Whether there may be cookie changes to send."""
        if not (self._changes or self._pending is not None or self._changing):
            return False
        return not (self.engine.apis and self.brings_token)

    async def take_changes(self) -> list[CookieChange]:
        """Take the current cookie changes, for the caller to send."""
        if self._changing:
            await asyncio.wait(self._changing)
        if self._is_cleared:
            await self.engine.sign_outs.run(self, self._end_session)
        pending, self._pending = self._pending, None
        if pending is not None:
            self.record(await resume.cookie_changes(self.party, pending))
        changes, self._changes = self._changes, ()
        return list({change.name: change for change in changes}.values())

    def is_own_cookie(self, header: bytes) -> bool:
        """Whether a `Set-Cookie` header is one of the session cookie, also without its prefix."""
        name = b"" if self._runtime is None else self._runtime.cookie
        return header.partition(b"=")[0] in (name, name.removeprefix(b"__Host-"))

    @property
    def depends_on_cookies(self) -> bool:
        """Whether a browser with other cookies may get another response."""
        if self.known is not None:
            return True
        return not (self.is_at_own_route or self.is_excluded)

    def end_cleared(self) -> None:
        """Record the end of a session that a thread cleared after the response had started."""
        if self._is_cleared and not self._has_ended:
            self.engine.sign_outs.start(self, self._end_session)
