"""The library's routes as endpoint functions, to mount together or individually."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.clock import LONGEST_DURATION
from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.flows.callback import LoginRefused, SignedIn
from fastapi_oidc.flows.login import LoginOptions, Prompt
from fastapi_oidc.flows.logout import LogoutOptions, complete_logout, require_endings
from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web import responses
from fastapi_oidc.web.actions import Actions
from fastapi_oidc.web.public_session import session_document, session_management
from fastapi_oidc.web.refusal import announce_refusal
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.requests import (
    form_parameters,
    parsed_query,
    query_parameters,
    require_own_iframe,
    url_at_base,
)
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import RequestData

Endpoint = TypeVar("Endpoint", bound=Callable[[Request], Awaitable[Response]])

OnSuccess: TypeAlias = Callable[
    [Request, SignedIn[Identity]], Response | Awaitable[Response | None] | None
]
OnFailure: TypeAlias = Callable[[Request, OIDCError], Response | Awaitable[Response | None] | None]


class LoginQuery(BaseModel):
    """The parameters of `GET /login`."""

    return_to: str | None = None
    prompt: Prompt | None = None
    login_hint: Annotated[str | None, Field(max_length=255)] = None
    max_age: Annotated[int | None, Field(ge=0, le=LONGEST_DURATION)] = None
    acr_values: Annotated[str, Field(max_length=255)] = ""
    silent: bool = False


class SessionQuery(BaseModel):
    """The parameters of `GET /session`."""

    active: bool = False


class Endpoints(Generic[Identity, RequestData]):
    """Makes the endpoint functions of one instance. Their names are used to find their paths.

    They take only the request, so they can be plain Starlette routes, to which no dependencies
    apply.
    """

    def __init__(self, actions: Actions[Identity, RequestData]) -> None:
        self._actions, self._runtime = actions, actions.runtime

    @property
    def instance(self) -> str:
        """The instance's name."""
        return self._runtime.name

    @property
    def has_back_channel_logout(self) -> bool:
        """Whether there is a store of revocation records, which back-channel logout needs."""
        return self._runtime.party.sessions.records_endings

    def login(self) -> Callable[[Request], Awaitable[Response]]:
        """`GET /login`."""

        async def login(request: Request) -> Response:
            asked = parsed_query(request, LoginQuery)
            if asked.silent:
                return await self._begin_silent_login(request)
            if elsewhere := url_at_base(context_of(request, self._runtime.name)):
                self._advise_on_address(request)
                return responses.redirect(elsewhere)
            options = LoginOptions(
                return_to=asked.return_to,
                prompt=asked.prompt,
                login_hint=asked.login_hint,
                max_age=asked.max_age,
                acr_values=asked.acr_values,
            )
            return await self._actions.begin_login(request, options)

        return self._named(Role.LOGIN, login)

    def callback(
        self,
        on_success: OnSuccess[Identity] | None = None,
        on_failure: OnFailure | None = None,
    ) -> Callable[[Request], Awaitable[Response]]:
        """`GET /callback`, and `POST /callback` for `response_mode=form_post`."""

        async def callback(request: Request) -> Response:
            with_data = on_success is not None
            outcome = await self._actions.complete_login(request, with_data=with_data)
            if outcome.silent:
                return responses.silent_answer(outcome)
            if _is_lost(outcome) and responses.is_in_iframe(request):
                return responses.silent_refusal(Code.AUTHORIZATION_TRANSACTION_MISSING)
            if isinstance(outcome, LoginRefused):
                return await _failure(request, outcome, on_failure)
            return await _success(request, outcome, on_success, self._runtime.name)

        return self._named(Role.CALLBACK, callback)

    def logout(self) -> Callable[[Request], Awaitable[Response]]:
        """`POST /logout`, a form with `local=1` for a local logout and `return_to`.

        A request with a CSRF token signs out of the token's session only.
        """

        async def logout(request: Request) -> Response:
            form = await form_parameters(request, Code.AUTHORIZATION_MALFORMED)
            return_to = form.get("return_to", [None])[-1]
            local = form.get("local", [""])[-1] in ("1", "true")
            await self._actions.require_named_session(request)
            return await self._actions.begin_logout(request, LogoutOptions(local, return_to))

        return self._named(Role.LOGOUT, logout)

    def logged_out(self) -> Callable[[Request], Awaitable[Response]]:
        """`GET /logged-out`, the return address after a logout at the provider."""

        async def logged_out(request: Request) -> Response:
            context = context_of(request, self._runtime.name)
            redirection = complete_logout(
                self._runtime.party, query_parameters(request), context.cookies
            )
            context.record(redirection.changes)
            return responses.redirect(redirection.location)

        return self._named(Role.LOGGED_OUT, logged_out)

    def back_channel_logout(self) -> Callable[[Request], Awaitable[Response]]:
        """`POST /backchannel-logout`; raises ConfigurationError without a store for it."""
        require_endings(self._runtime.party)

        async def back_channel_logout(request: Request) -> Response:
            return await self._actions.accept_back_channel_logout(request)

        return self._named(Role.BACK_CHANNEL_LOGOUT, back_channel_logout)

    def front_channel_logout(self) -> Callable[[Request], Awaitable[Response]]:
        """`GET /frontchannel-logout`; raises ConfigurationError without a store for it."""
        require_endings(self._runtime.party)

        async def front_channel_logout(request: Request) -> Response:
            return await self._actions.accept_front_channel_logout(request)

        return self._named(Role.FRONT_CHANNEL_LOGOUT, front_channel_logout)

    def session(self) -> Callable[[Request], Awaitable[Response]]:
        """`GET /session`, the public session; `active=1` counts as activity of the user."""

        async def session(request: Request) -> Response:
            active = parsed_query(request, SessionQuery).active
            locals = await context_of(request, self._runtime.name).locals(active=active)
            if locals.unavailable is not None:
                raise locals.unavailable
            return responses.not_stored(await session_document(self._runtime, locals))

        return self._named(Role.SESSION, session)

    def session_management(self) -> Callable[[Request], Awaitable[Response]]:
        """`GET /session-management`, the configuration of the browser component."""

        async def session_management_config(request: Request) -> Response:
            origin = context_of(request, self._runtime.name).origin
            return responses.not_stored(await session_management(self._runtime.party, origin))

        return self._named(Role.SESSION_MANAGEMENT, session_management_config)

    def script(self) -> Callable[[Request], Awaitable[Response]]:
        """`GET /oidc-context.js`, the browser component."""

        async def script(request: Request) -> Response:
            return responses.script(request)

        return self._named(Role.SCRIPT, script)

    def _advise_on_address(self, request: Request) -> None:
        asked, base_url = shown(request.headers.get("host", "")), self._runtime.origin
        self._runtime.party.announcer.advise(
            "base_url",
            f"it is {base_url}, and a login began at the host {asked}: the browser was sent to "
            "base_url. If the application is not there, correct it; behind a proxy pass on the "
            "Host header",
        )

    async def _begin_silent_login(self, request: Request) -> Response:
        require_own_iframe(request)
        try:
            return await self._actions.begin_login(request, LoginOptions(silent=True))
        except OIDCError as error:
            announce_refusal(context_of(request, self._runtime.name), error)
            return responses.silent_refusal(error.code)

    def _named(self, role: Role, endpoint: Endpoint) -> Endpoint:
        endpoint.__name__ = role.route_name(self._runtime.name)
        return endpoint


def _is_lost(outcome: SignedIn[Any] | LoginRefused) -> bool:
    """Whether the transaction is missing; a silent login must report that to its parent page."""
    if isinstance(outcome, SignedIn):
        return outcome.replayed
    return outcome.error.code is Code.AUTHORIZATION_TRANSACTION_MISSING


async def _failure(
    request: Request, outcome: LoginRefused, on_failure: OnFailure | None
) -> Response:
    response = await called(on_failure, request, outcome.error) if on_failure else None
    if response is None:
        raise outcome.error
    return response


async def _success(
    request: Request,
    outcome: SignedIn[Identity],
    on_success: OnSuccess[Identity] | None,
    name: str,
) -> Response:
    """The application's response or the redirect. If the application raises, the session ends."""
    response = None
    # Also for a repeated callback, which signs in like the first one.
    if on_success is not None and outcome.live is not None:
        try:
            response = await called(on_success, request, outcome)
        except BaseException:
            await context_of(request, name).abandon()
            raise
    return response or responses.redirect(outcome.return_to, after_post=request.method == "POST")
