"""The actions of a request: begin and complete a login, sign out, accept a logout."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Generic

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.events import EventName, refusal
from fastapi_oidc.flows.callback import (
    Callback,
    LoginFailed,
    LoginRefused,
    SignedIn,
    complete_login,
)
from fastapi_oidc.flows.login import LoginOptions, begin_login
from fastapi_oidc.flows.logout import (
    LogoutOptions,
    accept_back_channel_logout,
    accept_front_channel_logout,
    begin_logout,
)
from fastapi_oidc.flows.relying_party import Redirection
from fastapi_oidc.flows.resume import current
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web import responses
from fastapi_oidc.web.csrf import CSRF_HEADER
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.refusal import is_navigation
from fastapi_oidc.web.refusal_page import shown, signed_out_page
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.requests import form_parameters, query_parameters, require_same_origin
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import RequestData, Runtime


class Actions(Generic[Identity, RequestData]):
    """Runs the flows for requests of one instance. Cookies are sent with the response.

    Each method raises OIDCError with the name of this instance.
    """

    def __init__(self, runtime: Runtime[Identity, RequestData]) -> None:
        self.runtime = runtime

    async def begin_login(self, request: Request, options: LoginOptions) -> Response:
        """Redirect the browser to the provider."""
        context = self._context(request)
        with context.owning():
            redirection = await begin_login(
                self.runtime.party,
                options,
                redirect_uri=context.url(Role.CALLBACK),
                cookies=context.cookies,
            )
        context.record(redirection.changes)
        return responses.redirect(redirection.location)

    async def complete_login(
        self, request: Request, *, with_data: bool = True
    ) -> SignedIn[Identity] | LoginRefused:
        """The outcome of a callback; `with_data` also loads the request's data."""
        context = self._context(request)
        with context.owning():
            parameters = await _callback_parameters(request)
            callback = Callback(parameters, context.cookies)
            runtime = self.runtime
            outcome = await complete_login(
                runtime.party, runtime.coordinator, runtime.code_exchanges, callback
            )
        context.record(outcome.changes)
        if isinstance(outcome, LoginFailed):
            raise outcome.error
        if isinstance(outcome, LoginRefused):
            outcome.error.instance = self.runtime.name
        else:
            await context.began(outcome, with_data=with_data)
        return outcome

    async def require_named_session(self, request: Request) -> None:
        """Raises SessionError (session.csrf) for the CSRF token of another session.

        Without a session, and while the store is unavailable, every token is accepted.
        """
        context, token = self._context(request), request.headers.get(CSRF_HEADER)
        if token is None:
            return
        live = None
        with suppress(OIDCError):
            live = await current(self.runtime.party, context.cookies)
        if live is not None:
            with context.owning():
                self.runtime.csrf.require(live.session, token)

    async def begin_logout(self, request: Request, options: LogoutOptions) -> Response:
        """End the session and redirect the browser."""
        context = self._context(request)
        with context.owning():
            require_same_origin(context)
            # A task, so it also finishes if the browser disconnects: the session's tokens are read
            # only once.
            redirection: Redirection = await self.runtime.sign_outs.run(
                object(),
                partial(
                    begin_logout,
                    self.runtime.party,
                    options,
                    post_logout_redirect_uri=context.post_logout_redirect_uri,
                    cookies=context.cookies,
                ),
            )
        context.record(redirection.changes)
        context.left()
        if redirection.provider_unreachable and is_navigation(request):
            return await shown(context, signed_out_page(redirection.location))
        return responses.redirect(redirection.location)

    async def accept_back_channel_logout(self, request: Request) -> Response:
        """Revoke the sessions that the logout token names: 200, or 400 if it is refused (2.8)."""
        party = self.runtime.party
        try:
            form = await form_parameters(request, Code.LOGOUT_TOKEN_REQUEST)
            await accept_back_channel_logout(party, form)
        except OIDCError as error:
            now = party.clock.now()
            party.announcer(refusal(EventName.BACK_CHANNEL_LOGOUT_REFUSED, error, now))
            content = {"error": "invalid_request", "error_description": str(error.code)}
            return JSONResponse(content, 400, headers=NO_STORE)
        return Response(status_code=200, headers=NO_STORE)

    async def accept_front_channel_logout(self, request: Request) -> Response:
        """Revoke the sessions of a front-channel logout; an empty page. Raises OIDCError."""
        party = self.runtime.party
        with self._context(request).owning():
            try:
                await accept_front_channel_logout(party, query_parameters(request))
            except OIDCError as error:
                now = party.clock.now()
                party.announcer(refusal(EventName.FRONT_CHANNEL_LOGOUT_REFUSED, error, now))
                raise
        return responses.framed_by(party.policy.issuer)

    def _context(self, request: Request) -> RequestContext[Identity, RequestData]:
        return context_of(request, self.runtime.name)


async def _callback_parameters(request: Request) -> Parameters:
    if request.method == "POST":
        return await form_parameters(request, Code.AUTHORIZATION_MALFORMED)
    return query_parameters(request)
