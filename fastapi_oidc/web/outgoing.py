"""Access tokens for the application's own requests, as its users and as itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fastapi_oidc.errors import SessionError, misconfigured
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import NOT_IN_MEMORY
from fastapi_oidc.flows.sessions import ANY_EPOCH
from fastapi_oidc.grants import Detached, Grant, Holder, TokenAuth, auth_of
from fastapi_oidc.grants.grants import Tokens
from fastapi_oidc.protocol.downstream import MIN_VALIDITY, IssuedToken, Needed, Target
from fastapi_oidc.resource_server.server import AccessToken, Caller
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.revocations import keys_of
from fastapi_oidc.session.session_cookie import Copy
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import require_kind
from fastapi_oidc.web.routes import Owning
from fastapi_oidc.web.runtime import Engine, RequestData, Runtime
from fastapi_oidc.web.serving import Serving, of_this_task, running


class Outgoing(Serving[Identity, RequestData]):
    """Authenticates requests to APIs.

    `audience`, `resource` and `scope` select one of the `downstream_apis`. Without them, the
    session's own access token is used.
    """

    def auth(
        self,
        session: OIDCSession[Identity] | AccessToken | Caller[Identity] | Grant,
        *,
        audience: str | None = None,
        resource: str | None = None,
        scope: str | Sequence[str] = (),
        min_validity: int = MIN_VALIDITY,
    ) -> TokenAuth:
        """Authentication with which an httpx or httpx2 client calls an API as a user.

        `session` may also be the access token of a caller, or the caller. An access token is
        exchanged for one of the selected API, and never sent to that API.

        Each request gets a token that is valid for `min_validity` seconds, as from
        `Grant.access_token`. The token is sent to the origin of the request only. A session in a
        cookie can be refreshed only within its request, before the response starts; a session in a
        store at any time. Raises ConfigurationError unless exactly one API matches. A request over
        http raises it too, unless it stays on this machine or `allow_insecure_http` is set, and a
        call from another request than the one that made the authentication, unless both are of the
        same session. That of a Grant is for all requests.
        """
        require_kind(
            "session of oidc.auth(session)", session, OIDCSession, AccessToken, Caller, Grant
        )
        runtime, target = self.runtime, Target(audience=audience, resource=resource, scope=scope)
        session = _of_caller(session) if isinstance(session, Caller) else session
        if isinstance(session, Grant):
            if not target.is_empty:
                raise misconfigured("a Grant is for one API: select the API in oidc.grant")
            tokens = session.tokens
        elif isinstance(session, AccessToken):
            tokens = _within_its_request(runtime.engine, self._of_token(session, target), "")
        else:
            tokens = _of_session(runtime, session, target)
            tokens = _within_its_request(runtime.engine, tokens, session.id)
        return _auth(runtime, tokens, min_validity)

    async def grant(
        self,
        session_id: str | AccessToken | Caller[Identity],
        *,
        audience: str | None = None,
        resource: str | None = None,
        scope: str | Sequence[str] = (),
    ) -> Grant:
        """The grant of the session with this id, for work without a request.

        With the access token of a caller, or the caller, the grant exchanges that token. It works
        until the last token that the provider issued for it has expired.

        Raises SessionError when the session has ended or its store is unavailable. Raises
        ConfigurationError when no session store can find sessions by id, and unless exactly one API
        matches.
        """
        require_kind("session_id of oidc.grant", session_id, str, AccessToken, Caller)
        party = self.runtime.party
        target = Target(audience=audience, resource=resource, scope=scope)
        if isinstance(session_id, Caller):
            caller = _of_caller(session_id)
            session_id = caller if isinstance(caller, AccessToken) else caller.id
        if isinstance(session_id, AccessToken):
            return Grant(self._of_token(session_id, target))
        api = party.api(target)
        party.sessions.require_rows("find a session by its id")
        copy: Copy = Copy(session_id, (), ANY_EPOCH, 0)
        holder: Holder = Detached(party, copy)
        try:
            await holder.current()
        except SessionError as error:
            if party.sessions.is_in_memory and await party.sessions.judge(copy) is None:
                party.announcer.advise("session_store", NOT_IN_MEMORY)
                error.add_note(NOT_IN_MEMORY)
            raise
        return Grant(partial(self.runtime.engine.grants.token, session_id, holder, api))

    def _of_token(self, token: AccessToken, target: Target) -> Tokens:
        """Tokens for the API `target` in exchange for a caller's; raises ConfigurationError."""
        runtime = self.runtime
        if (api := runtime.party.api(target)) is None:
            raise misconfigured(
                "a caller's token is for this API alone and is not sent to another one: select one "
                "of downstream_apis, to which the provider exchanges it (RFC 8693)"
            )
        if api.grant == "refresh_token":
            raise misconfigured(
                'a caller has no refresh token: use DownstreamAPI(grant="token_exchange", ...)'
            )
        if (party := runtime.party.at(token.iss)) is None:
            issuers = " or ".join(each.settings.issuer for each in runtime.party.together)
            raise misconfigured(f"only {issuers} exchanges tokens here, not {token.iss}")
        of_caller = runtime.engine.grants.of_caller
        return partial(of_caller, party, token.value, token.expires_at, api)

    def app_auth(
        self,
        *,
        audience: str | None = None,
        resource: str | None = None,
        scope: str | Sequence[str] = (),
        min_validity: int = MIN_VALIDITY,
    ) -> TokenAuth:
        """Authentication with which a client calls an API as the application itself (RFC 6749 4.4).

        Each process has a token of its own, which is used until `min_validity` seconds before it
        expires. If a function finds the registration, a call from a request of another one raises
        ConfigurationError.
        """
        runtime, party = self.runtime, self._only()
        target = Target(audience=audience, resource=resource, scope=scope)
        tokens: Tokens = partial(runtime.engine.grants.of_application, party, target)
        if self.registrations.fixed is None:
            tokens = _within_its_registration(party, runtime.engine, tokens)
        return _auth(runtime, tokens, min_validity)

    async def aclose(self) -> None:
        """Wait for requests under way, and close the connections to providers and the store.

        The middleware calls this at the application's shutdown.
        """
        await self.engine.aclose()


def _auth(runtime: Runtime, tokens: Tokens, min_validity: int) -> TokenAuth:
    require_kind("min_validity", min_validity, int)
    proofs, is_allowed = runtime.engine.grants.proofs, runtime.party.settings.allow_insecure_http
    return auth_of(tokens, min_validity, proofs, is_insecure_allowed=is_allowed)


def _within_its_request(engine: Engine, tokens: Tokens, session_id: str) -> Tokens:
    """`tokens` for the request under way, and others of its session; without one, for all tasks.

    Requests that share a client and set its `auth` would send the token of another user. A task
    that outlives its request is in none.
    """
    made_in = of_this_task.get()

    async def token(needed: Needed) -> IssuedToken:
        place = of_this_task.get()
        request = None if place is None else place[1]()
        is_under_way = request is not None and not request.is_over
        is_another = made_in is not None and made_in[1]() is not request
        if is_under_way and is_another and _request_of(engine, session_id) is None:
            raise misconfigured(
                "this authentication was made in another request, for its user: give each call of "
                "a shared client its own, as in client.get(url, auth=oidc.auth(session)), or make "
                "a client for each request"
            )
        return await tokens(needed)

    return token


def _within_its_registration(party: RelyingParty, engine: Engine, tokens: Tokens) -> Tokens:
    """`tokens`, unless the request under way is of another registration: of another tenant."""

    async def token(needed: Needed) -> IssuedToken:
        here = running(engine)
        if here is not None and here.is_served and here.party.settings != party.settings:
            raise misconfigured(
                "oidc.app_auth was made in a request of another registration, whose token it would "
                "send: make it in each request, or by oidc.registration(settings)"
            )
        return await tokens(needed)

    return token


def _of_caller(caller: Caller[Identity]) -> OIDCSession[Identity] | AccessToken:
    """What the caller has presented."""
    presented = caller.session or caller.access_token
    if presented is None:
        raise misconfigured("this Caller has neither a session nor an access token")
    return presented


def _of_session(runtime: Runtime, session: OIDCSession[Identity], target: Target) -> Tokens:
    """The tokens of an endpoint's session; within its request, the request's session is used."""
    api = runtime.party.api(target)
    known = None if runtime.party.sessions.in_store else session
    copy = Copy(session.id, keys_of(session), ANY_EPOCH, session.last_end, known)
    elsewhere: Holder = Detached(runtime.party, copy)

    async def token(needed: Needed) -> IssuedToken:
        context = _request_of(runtime.engine, session.id)
        holder: Holder = context if context is not None and context.is_open else elsewhere
        with Owning(runtime.engine.name):
            return await runtime.engine.grants.token(session.id, holder, api, needed)

    return token


def _request_of(engine: Engine, session_id: str) -> RequestContext | None:
    """The running request, if its session has this id."""
    context = running(engine)
    if context is None or context.known is None:
        return None
    session = context.known.session
    return context if session is not None and session.id == session_id else None
