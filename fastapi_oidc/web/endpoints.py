"""What the library's routes do for a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import NoneType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.callback import LoginRefused, SignedIn, complete_login
from fastapi_oidc.flows.login import LoginOptions, begin_login
from fastapi_oidc.flows.logout import (
    LogoutOptions,
    accept_back_channel_logout,
    accept_front_channel_logout,
    begin_logout,
    complete_logout,
)
from fastapi_oidc.flows.relying_party import Redirection
from fastapi_oidc.flows.resume import current
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web import login_query, requests
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import ToProvider, awaited, require_kind, require_takes
from fastapi_oidc.web.pages import (
    NO_STORE,
    SCRIPT,
    UNREFERRED,
    chooser_page,
    signed_out_page,
    silent_page,
)
from fastapi_oidc.web.refusals import announce_refusal, help_of, is_navigation, shown
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import CSRF_HEADER, RequestData
from fastapi_oidc.web.serving import EndpointFunction, Serving

OnSuccess: TypeAlias = Callable[
    [Request, SignedIn[Identity]], Response | Awaitable[Response | None] | None
]
OnFailure: TypeAlias = Callable[[Request, OIDCError], Response | Awaitable[Response | None] | None]


class Endpoints(Serving[Identity, RequestData]):
    """Endpoint functions, each of which can be mounted anywhere in the app.

    They take only the request, so they can be plain Starlette routes, to which no dependencies
    apply. Their names are used to find their paths.
    """

    router: APIRouter
    """All routes of the library, to include with a prefix.

    `POST /backchannel-logout` is included if there is a store.
    """

    @awaited
    async def login(
        self, request: Request, options: LoginOptions | None = None, *, return_to: str | None = None
    ) -> Response:
        """Begin a login: the response redirects the browser to the provider.

        `return_to` is that of the options.

        With several registrations and no `options.provider`, it is the page to choose one. A silent
        login and a step-up are at the session's own. HTTPException (404) for an unknown provider.
        """
        require_kind("options of oidc.login", options, LoginOptions, NoneType)
        require_kind("return_to of oidc.login", return_to, str, NoneType)
        context, options = self._context(request), options or LoginOptions()
        if return_to is not None:
            options = replace(options, return_to=return_to)
        login_query.advise_on_return(context, options.return_to)
        party = await login_query.registration_for(context, options)
        if party is None:
            return await shown(context, chooser_page(login_query.choices(context, options)))
        redirect_uri, cookies = context.url(Role.CALLBACK, party), context.cookies
        redirection = await begin_login(party, options, redirect_uri=redirect_uri, cookies=cookies)
        context.record(redirection.changes)
        return _to_provider(context, redirection.location, "oidc.login")

    @awaited
    async def handle_callback(self, request: Request) -> SignedIn[Identity]:
        """Complete the login. Raises OIDCError when the provider's response is refused."""
        outcome = await self._complete_login(request, with_data=True)
        if isinstance(outcome, LoginRefused):
            raise outcome.error
        return outcome

    @awaited
    async def logout(self, request: Request, options: LogoutOptions | None = None) -> Response:
        """End the session: the response redirects the browser to the provider or a local page."""
        require_kind("options of oidc.logout", options, LogoutOptions, NoneType)
        context, options = self._context(request), options or LogoutOptions()
        login_query.advise_on_return(context, options.return_to)
        requests.require_same_origin(context)
        logged_out, cookies = context.path_to(Role.LOGGED_OUT), context.cookies
        url = logged_out and context.url(Role.LOGGED_OUT)
        begin = partial(begin_logout, context.party, options, logged_out_url=url, cookies=cookies)
        # A task, so it also finishes if the browser disconnects: the session's tokens are read
        # only once.
        redirection: Redirection = await context.engine.sign_outs.run(object(), begin)
        context.record(redirection.changes)
        context.note_sign_out()
        if redirection.provider_unreachable and is_navigation(request):
            return await shown(context, signed_out_page(redirection.location))
        return _to_provider(context, redirection.location, "oidc.logout")

    async def handle_back_channel_logout(self, request: Request) -> Response:
        """Revoke the sessions that the logout token names: 200, or 400 if it is refused (2.8)."""
        party = self._context(request).registration(request)
        try:
            form = await requests.form_parameters(request, Code.LOGOUT_TOKEN_REQUEST)
            await accept_back_channel_logout(party, form)
        except OIDCError as error:
            party.announcer.announce(EventName.BACK_CHANNEL_LOGOUT_REFUSED, error)
            content = {"error": "invalid_request", "error_description": str(error.code)}
            return JSONResponse(content, 400, headers=NO_STORE | help_of(error.code))
        return Response(status_code=200, headers=NO_STORE)

    def login_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /login`."""
        return self._named(Role.LOGIN, self._serve_login)

    def callback_handler(
        self, *, on_success: OnSuccess[Identity] | None = None, on_failure: OnFailure | None = None
    ) -> EndpointFunction:
        """The endpoint function of `GET /callback` (and POST, for `form_post`).

        `on_success(request, signed_in)` and `on_failure(request, error)` may return a response in
        place of the redirect or the error page. If `on_success` raises, or its response has the
        status of an error, the login leaves no session. A repeated callback, for example after a
        reload, calls `on_success` again with `signed_in.replayed` set.
        """
        require_takes("on_success", on_success, Request, SignedIn)
        require_takes("on_failure", on_failure, Request, OIDCError)
        serve = partial(self._serve_callback, on_success=on_success, on_failure=on_failure)
        return self._named(Role.CALLBACK, serve)

    def logout_handler(self) -> EndpointFunction:
        """The endpoint function of `POST /logout`.

        It takes a form with `local=1` for a local logout, and `return_to`. A request with a CSRF
        token signs out of the token's session only. Without a mounted `logged_out_handler` the
        browser stays at the provider.
        """
        return self._named(Role.LOGOUT, self._serve_logout)

    def logged_out_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /logged-out`, the post-logout redirect URI."""
        return self._named(Role.LOGGED_OUT, self._serve_logged_out)

    def back_channel_logout_handler(self) -> EndpointFunction:
        """The endpoint function of `POST /backchannel-logout`.

        Raises ConfigurationError (configuration.store_missing) without a store.
        """
        self.engine.endings.require()
        return self._named(Role.BACK_CHANNEL_LOGOUT, self.handle_back_channel_logout)

    def front_channel_logout_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /frontchannel-logout`, which the provider loads in a frame.

        Raises ConfigurationError (configuration.store_missing) without a store.
        """
        self.engine.endings.require()
        return self._named(Role.FRONT_CHANNEL_LOGOUT, self._serve_front_channel_logout)

    def script_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /oidc-context.js`, the browser component."""
        return self._named(Role.SCRIPT, SCRIPT.serve)

    async def _serve_login(self, request: Request) -> Response:
        context = self._context(request)
        asked = requests.parsed_query(request, login_query.LoginQuery)
        if asked.silent:
            requests.require_own_iframe(request)
            try:
                return await self.login(request, LoginOptions(silent=True))
            except OIDCError as error:
                announce_refusal(context, error)
                return silent_page(error.code)
        elsewhere = requests.url_at_base(context)
        login_query.advise_on_login(context, asked, elsewhere)
        if elsewhere is not None:
            return _redirect(elsewhere)
        return await self.login(request, LoginOptions(**asked.model_dump(exclude={"silent"})))

    async def _serve_callback(
        self, request: Request, on_success: OnSuccess[Identity] | None, on_failure: OnFailure | None
    ) -> Response:
        outcome = await self._complete_login(request, with_data=on_success is not None)
        if outcome.silent:
            return silent_page(outcome.error.code if isinstance(outcome, LoginRefused) else "")
        # A silent login must report to its parent page, also without its transaction.
        is_in_iframe = request.headers.get("sec-fetch-dest") == "iframe"
        if is_in_iframe and _is_lost(outcome):
            return silent_page(Code.AUTHORIZATION_TRANSACTION_MISSING)
        if isinstance(outcome, LoginRefused):
            response = await called(on_failure, request, outcome.error) if on_failure else None
            require_kind("the result of on_failure", response, Response, NoneType)
            if response is None:
                raise outcome.error
            return response
        # Also for a repeated callback, which signs in like the first one.
        if on_success is not None and outcome.live is not None:
            response = await self._tell_of(request, outcome, on_success)
            if response is not None:
                return response
        return _redirect(outcome.return_to, after_post=request.method == "POST")

    async def _complete_login(
        self, request: Request, *, with_data: bool
    ) -> SignedIn[Identity] | LoginRefused:
        """The outcome of a callback; `with_data` also loads the request's data."""
        context = self._context(request)
        party, engine = context.registration(request), context.engine
        is_form, fault = request.method == "POST", Code.AUTHORIZATION_MALFORMED
        parameters = (
            await requests.form_parameters(request, fault)
            if is_form
            else requests.query_parameters(request, fault)
        )
        exchanges, cookies = engine.code_exchanges, context.cookies
        outcome = await complete_login(party, exchanges, parameters, cookies)
        context.record(outcome.changes)
        if isinstance(outcome, LoginRefused):
            outcome.error.instance = engine.name
        else:
            await context.note_login(outcome, with_data=with_data)
        return outcome

    async def _tell_of(
        self, request: Request, outcome: SignedIn[Identity], on_success: OnSuccess[Identity]
    ) -> Response | None:
        """The application's response, if any. If it refuses or raises, no session is left."""
        try:
            response = await called(on_success, request, outcome)
            require_kind("the result of on_success", response, Response, NoneType)
        except BaseException:
            await self._context(request).abandon()
            raise
        if response is not None and response.status_code >= HTTPStatus.BAD_REQUEST:
            await self._context(request).abandon()
        return response

    async def _serve_logout(self, request: Request) -> Response:
        form = await requests.form_parameters(request, Code.LOGOUT_REQUEST_MALFORMED)
        return_to = form.get("return_to", [None])[-1]
        local = form.get("local", [""])[-1] in ("1", "true")
        await self._require_named_session(request)
        return await self.logout(request, LogoutOptions(local, return_to))

    async def _require_named_session(self, request: Request) -> None:
        """Raises SessionError (session.csrf) for the CSRF token of another session.

        Without a session, and while the store is unavailable, every token is accepted.
        """
        context, token = self._context(request), request.headers.get(CSRF_HEADER)
        if token is None:
            return
        live = None
        with suppress(OIDCError):
            live = await current(context.party, context.cookies)
        if live is not None:
            context.runtime.csrf.require(live.session, token)

    async def _serve_logged_out(self, request: Request) -> Response:
        context = self._context(request)
        query = requests.query_parameters(request, Code.LOGOUT_REQUEST_MALFORMED)
        redirection = complete_logout(context.party, query)
        return _redirect(redirection.location)

    async def _serve_front_channel_logout(self, request: Request) -> Response:
        """An empty page, which only the provider can frame. Raises OIDCError."""
        party = self._context(request).registration(request)
        try:
            query = requests.query_parameters(request, Code.LOGOUT_REQUEST_MALFORMED)
            await accept_front_channel_logout(party, query)
        except OIDCError as error:
            party.announcer.announce(EventName.FRONT_CHANNEL_LOGOUT_REFUSED, error)
            raise
        url = urlsplit(party.settings.issuer)
        policy = f"default-src 'none'; frame-ancestors {url.scheme}://{url.netloc}"
        return HTMLResponse("", headers=NO_STORE | {"Content-Security-Policy": policy})


def _advise_on_fetch(context: RequestContext, location: str) -> None:
    """Log that a script fetches what leads to the provider, which it can neither show nor read."""
    is_elsewhere = not location.startswith(("/", context.origin))
    if is_elsewhere and context.connection.headers.get("sec-fetch-mode") == "cors":
        context.party.announcer.advise(
            "fetch",
            f"a script fetched {context.path}, whose response leads to the provider, so that its "
            'browser says "Failed to fetch": use a link for a login, and a form for a sign-out',
        )


def _to_provider(context: RequestContext, location: str, name: str) -> ToProvider:
    """The response of the method `name`, which the running request must send."""
    _advise_on_fetch(context, location)
    response = ToProvider(location, name)
    context.note(response)
    return response


def _redirect(location: str, *, after_post: bool = False) -> Response:
    """Redirect the browser to `location`; after a POST with a GET (303, RFC 9700 4.12)."""
    return RedirectResponse(location, 303 if after_post else 302, headers=UNREFERRED)


def _is_lost(outcome: SignedIn[Any] | LoginRefused) -> bool:
    """Whether the transaction is missing."""
    if isinstance(outcome, SignedIn):
        return outcome.replayed
    return outcome.error.code is Code.AUTHORIZATION_TRANSACTION_MISSING
