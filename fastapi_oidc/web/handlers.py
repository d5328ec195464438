"""The library's routes, to mount together or individually."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.endpoints import Endpoints, OnFailure, OnSuccess
from fastapi_oidc.web.runtime import RequestData

EndpointFunction = Callable[[Request], Awaitable[Response]]


class Handlers(Generic[Identity, RequestData]):
    """Endpoint functions, each of which can be mounted anywhere in the app."""

    router: APIRouter
    """All routes of the library, to include with a prefix.

    `POST /backchannel-logout` is included if there is a store.
    """
    _endpoints: Endpoints[Identity, RequestData]

    def login_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /login`."""
        return self._endpoints.login()

    def callback_handler(
        self, *, on_success: OnSuccess[Identity] | None = None, on_failure: OnFailure | None = None
    ) -> EndpointFunction:
        """The endpoint function of `GET /callback` (and POST, for `form_post`).

        `on_success(request, signed_in)` and `on_failure(request, error)` may return a response in
        place of the redirect or the error page. If `on_success` raises, the login leaves no
        session. A repeated callback, for example after a reload, calls `on_success` again with
        `signed_in.replayed` set.
        """
        return self._endpoints.callback(on_success, on_failure)

    def logout_handler(self) -> EndpointFunction:
        """The endpoint function of `POST /logout`.

        Without a mounted `logged_out_handler` the browser stays at the provider.
        """
        return self._endpoints.logout()

    def logged_out_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /logged-out`, the post-logout redirect URI."""
        return self._endpoints.logged_out()

    def back_channel_logout_handler(self) -> EndpointFunction:
        """The endpoint function of `POST /backchannel-logout`.

        Raises ConfigurationError (configuration.store_missing) without a store.
        """
        return self._endpoints.back_channel_logout()

    def front_channel_logout_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /frontchannel-logout`, which the provider loads in a frame.

        Raises ConfigurationError (configuration.store_missing) without a store.
        """
        return self._endpoints.front_channel_logout()

    def session_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /session`, for the browser component."""
        return self._endpoints.session()

    def session_management_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /session-management`, for the browser component."""
        return self._endpoints.session_management()

    def script_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /oidc-context.js`, the browser component."""
        return self._endpoints.script()
