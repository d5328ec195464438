"""What a request of one instance can do: begin and complete a login, sign out, accept a logout."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Generic

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.flows.backchannel import accept_back_channel_logout
from fastapi_oidc.flows.callback import Callback, complete_login
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.login import LoginOptions, begin_login
from fastapi_oidc.flows.logout import LogoutOptions, begin_logout
from fastapi_oidc.flows.outcomes import Failed, Redirection, Refused, SignedIn
from fastapi_oidc.flows.resume import living
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web import answers
from fastapi_oidc.web.csrf import CSRF_HEADER
from fastapi_oidc.web.exchange import Exchange
from fastapi_oidc.web.exchanges import exchange_of
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.refusal import is_navigation
from fastapi_oidc.web.refusal_page import shown, signed_out_page
from fastapi_oidc.web.requests import form_parameters, query_parameters, require_same_origin
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.site import RequestData, Site


class Actions(Generic[Identity, RequestData]):
    """Runs the flows for requests of one instance; their cookies go out with the answer.

    Each raises OIDCError, which is then this instance's to answer.
    """

    def __init__(self, site: Site[Identity, RequestData]) -> None:
        self.site = site

    async def begin_login(self, request: Request, options: LoginOptions) -> Response:
        """Send the browser to the provider."""
        exchange = self._exchange(request)
        with exchange.owning():
            redirection = await begin_login(
                self.site.party,
                options,
                redirect_uri=exchange.url(Role.CALLBACK),
                cookies=exchange.cookies,
            )
        exchange.record(redirection.changes)
        return answers.redirect(redirection.location)

    async def complete_login(
        self, request: Request, *, with_data: bool = True
    ) -> SignedIn[Identity] | Refused:
        """What the provider's answer led to; `with_data` loads the request's data for it."""
        exchange = self._exchange(request)
        with exchange.owning():
            parameters = await _callback_parameters(request)
            callback = Callback(parameters, exchange.cookies)
            site = self.site
            outcome = await complete_login(site.party, site.refresher, site.redemptions, callback)
        exchange.record(outcome.changes)
        if isinstance(outcome, Failed):
            raise outcome.error
        if isinstance(outcome, Refused):
            outcome.error.instance = self.site.name
        else:
            await exchange.began(outcome, with_data=with_data)
        return outcome

    async def require_named_session(self, request: Request) -> None:
        """Raises SessionError (session.csrf) at a CSRF token of another session than is here.

        While a store cannot tell, as without a session, every token will do.
        """
        exchange, token = self._exchange(request), request.headers.get(CSRF_HEADER)
        if token is None:
            return
        kept = None
        with suppress(OIDCError):
            kept = await living(self.site.party, exchange.cookies)
        if kept is not None:
            with exchange.owning():
                self.site.csrf.require(kept.session, token)

    async def begin_logout(self, request: Request, options: LogoutOptions) -> Response:
        """Clear the session and send the browser on."""
        exchange = self._exchange(request)
        with exchange.owning():
            require_same_origin(exchange)
            # To its end, also when the browser goes away: the session's tokens are known once.
            redirection: Redirection = await self.site.sign_outs.run(
                object(),
                partial(
                    begin_logout,
                    self.site.party,
                    options,
                    post_logout_redirect_uri=exchange.post_logout_redirect_uri,
                    cookies=exchange.cookies,
                ),
            )
        exchange.record(redirection.changes)
        exchange.left()
        if redirection.provider_unreachable and is_navigation(request):
            return await shown(exchange, signed_out_page(redirection.location))
        return answers.redirect(redirection.location)

    async def accept_back_channel_logout(self, request: Request) -> Response:
        """200 when every session the logout token names is revoked; else 400 (2.8)."""
        party = self.site.party
        try:
            form = await form_parameters(request, Code.LOGOUT_TOKEN_REQUEST)
            await accept_back_channel_logout(party, form)
        except OIDCError as error:
            now = party.clock.now()
            party.announcer(refused(EventName.BACK_CHANNEL_LOGOUT_REFUSED, error, now))
            content = {"error": "invalid_request", "error_description": str(error.code)}
            return JSONResponse(content, 400, headers=NO_STORE)
        return Response(status_code=200, headers=NO_STORE)

    def _exchange(self, request: Request) -> Exchange[Identity, RequestData]:
        return exchange_of(request, self.site.name)


async def _callback_parameters(request: Request) -> Parameters:
    if request.method == "POST":
        return await form_parameters(request, Code.AUTHORIZATION_MALFORMED)
    return query_parameters(request)
