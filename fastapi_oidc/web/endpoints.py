"""What the library's routes do for a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
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
from fastapi_oidc.flows import logout as logouts
from fastapi_oidc.flows.callback import LoginRefused, SignedIn, complete_login
from fastapi_oidc.flows.login import LoginOptions, begin_login
from fastapi_oidc.flows.relying_party import Redirection
from fastapi_oidc.flows.resume import current
from fastapi_oidc.session.model import Identity
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web import login_query, pages, requests
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import ToProvider, awaited, require_kind, require_takes
from fastapi_oidc.web.refusals import announce_refusal, help_of, is_navigation, shown
from fastapi_oidc.web.routes import REGISTRATION, Role
from fastapi_oidc.web.runtime import CSRF_HEADER, RequestData
from fastapi_oidc.web.serving import EndpointFunction, Serving

OnSuccess: TypeAlias = Callable[
    [Request, SignedIn[Identity]], Response | Awaitable[Response | None] | None
]


class Endpoints(Serving[Identity, RequestData]):
    """Endpoint functions, each of which can be mounted anywhere in the app.

    They take only the request, so they can be plain Starlette routes, to which no dependencies
    apply. Their names are used to find their paths.
    """

    router: APIRouter
    """All routes of the library, to include with a prefix."""

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
            return await shown(context, pages.chooser_page(login_query.choices(context, options)))
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
    async def logout(
        self, request: Request, options: logouts.LogoutOptions | None = None
    ) -> Response:
        """End the session: the response redirects the browser to the provider or a local page."""
        require_kind("options of oidc.logout", options, logouts.LogoutOptions, NoneType)
        context, options = self._context(request), options or logouts.LogoutOptions()
        login_query.advise_on_return(context, options.return_to)
        requests.require_same_origin(context)
        logged_out, cookies = context.path_to(Role.LOGGED_OUT), context.cookies
        url = logged_out and context.url(Role.LOGGED_OUT)
        begin = partial(
            logouts.begin_logout, context.party, options, logged_out_url=url, cookies=cookies
        )
        # A task, so it also finishes if the browser disconnects: the session's tokens are read
        # only once.
        redirection: Redirection = await context.engine.sign_outs.run(object(), begin)
        context.record(redirection.changes)
        context.note_sign_out()
        if redirection.provider_unreachable and is_navigation(request):
            return await shown(context, pages.signed_out_page(redirection.location))
        return _to_provider(context, redirection.location, "oidc.logout")

    async def handle_back_channel_logout(self, request: Request) -> Response:
        """Revoke the sessions that the logout token names: 200, or 400 if it is refused (2.8)."""
        party = self._context(request).registration(request)
        try:
            form = await requests.form_parameters(request, Code.LOGOUT_TOKEN_REQUEST)
            await logouts.accept_back_channel_logout(party, form)
        except OIDCError as error:
            party.announcer.announce(EventName.BACK_CHANNEL_LOGOUT_REFUSED, error)
            content = {"error": "invalid_request", "error_description": str(error.code)}
            return JSONResponse(content, 400, headers=pages.NO_STORE | help_of(error.code))
        return Response(status_code=200, headers=pages.NO_STORE)

    def login_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /login`."""
        return self._named(Role.LOGIN, self._serve_login)

    def callback_handler(
        self, *, on_success: OnSuccess[Identity] | None = None
    ) -> EndpointFunction:
        """The endpoint function of `GET /callback` (and POST, for `form_post`).

        `on_success(request, signed_in)` may return a response in place of the redirect. If it
        raises, or its response has the status of an error, the login leaves no session. A repeated
        callback, for example after a reload, calls `on_success` again with `signed_in.replayed`
        set.
        """
        require_takes("on_success", on_success, Request, SignedIn)
        serve = partial(self._serve_callback, on_success=on_success)
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
        """The endpoint function of `POST /backchannel-logout`; without a store it refuses all."""
        return self._named(Role.BACK_CHANNEL_LOGOUT, self.handle_back_channel_logout)

    def front_channel_logout_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /frontchannel-logout`, which the provider loads in a frame.

        Raises ConfigurationError (configuration.store_missing) without a store.
        """
        self.engine.endings.require()
        return self._named(Role.FRONT_CHANNEL_LOGOUT, self._serve_front_channel_logout)

    def script_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /oidc-context.js`, the browser component."""
        return self._named(Role.SCRIPT, pages.serve_script)

    async def _serve_login(self, request: Request) -> Response:
        context = self._context(request)
        asked = login_query.options_in(request.query_params)
        if asked.silent:
            requests.require_own_iframe(request)
            try:
                return await self.login(request, LoginOptions(silent=True))
            except OIDCError as error:
                announce_refusal(context, error)
                return pages.silent_page(error.code)
        elsewhere = requests.url_at_base(context)
        login_query.advise_on_login(context, asked, elsewhere)
        if elsewhere is not None:
            return _redirect(elsewhere)
        return await self.login(request, asked)

    async def _serve_callback(
        self, request: Request, on_success: OnSuccess[Identity] | None
    ) -> Response:
        outcome = await self._complete_login(request, with_data=on_success is not None)
        if outcome.silent:
            return pages.silent_page(
                outcome.error.code if isinstance(outcome, LoginRefused) else ""
            )
        if isinstance(outcome, LoginRefused):
            raise outcome.error
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
        return await self.logout(request, logouts.LogoutOptions(local, return_to))

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
        redirection = logouts.complete_logout(context.party, query)
        return _redirect(redirection.location)

    async def _serve_front_channel_logout(self, request: Request) -> Response:
        """An empty page, which only the provider can frame. Raises OIDCError."""
        party = self._context(request).registration(request)
        try:
            query = requests.query_parameters(request, Code.LOGOUT_REQUEST_MALFORMED)
            await logouts.accept_front_channel_logout(party, query)
        except OIDCError as error:
            party.announcer.announce(EventName.FRONT_CHANNEL_LOGOUT_REFUSED, error)
            raise
        url = urlsplit(party.settings.issuer)
        policy = f"default-src 'none'; frame-ancestors {url.scheme}://{url.netloc}"
        return HTMLResponse("", headers=pages.NO_STORE | {"Content-Security-Policy": policy})


def _to_provider(context: RequestContext, location: str, name: str) -> ToProvider:
    """The response of the method `name`, which the running request must send.

    A script that fetches it is logged, because it can neither show nor read the provider.
    """
    is_elsewhere = not location.startswith(("/", context.origin))
    if is_elsewhere and context.connection.headers.get("sec-fetch-mode") == "cors":
        context.party.announcer.advise(
            "fetch",
            f"a script fetched {context.path}, whose response leads to the provider, so that its "
            'browser says "Failed to fetch": use a link for a login, and a form for a sign-out',
        )
    response = ToProvider(location, name)
    context.note(response)
    return response


def _redirect(location: str, *, after_post: bool = False) -> Response:
    """Redirect the browser to `location`; after a POST with a GET (303, RFC 9700 4.12)."""
    return RedirectResponse(location, 303 if after_post else 302, headers=pages.UNREFERRED)


def conventional_router(
    endpoints: Endpoints[Any, Any], settings: Collection[OIDCSettings] | None
) -> APIRouter:
    """A router to include with a prefix. Its routes are not in the app's OpenAPI document.

    They are plain Starlette routes, so dependencies of the application or of an outer router do not
    apply to them: a login that needs a session would never end. `settings` are those of the
    registrations, None if a function finds them. Raises ConfigurationError for a route that needs a
    store.
    """
    engine, router = endpoints.engine, APIRouter(include_in_schema=False)
    for role in Role:
        methods = {method for each in settings or () for method in role.methods(each)}
        if settings is None:
            is_usable = engine.endings.are_recorded or role is not Role.FRONT_CHANNEL_LOGOUT
            methods = {"GET", "POST"} if is_usable else set()
        is_of_one = role.is_of_one and settings is not None and len(settings) > 1
        path = f"/{{{REGISTRATION}}}/{role}" if is_of_one else f"/{role}"
        # The response to `GET /logout` says how to sign out.
        matched = sorted({"GET", *methods} if role is Role.LOGOUT else methods)
        if matched:
            endpoint = getattr(endpoints, role.handler)()
            router.add_route(path, endpoint, methods=matched, name=role.route_name(engine.name))
    return router
