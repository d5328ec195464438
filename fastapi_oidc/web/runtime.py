"""One OIDC instance as the web layer sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from starlette.requests import HTTPConnection

from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.flows.callback import CodeExchanges
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.grants import Grants
from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.session.model import Identity, OIDCSession, PublicSession
from fastapi_oidc.web.csrf import CSRFTokens
from fastapi_oidc.web.pages import RenderPage

RequestData = TypeVar("RequestData")


@dataclass(frozen=True, slots=True)
class RequestDataContext(Generic[Identity]):
    """The session of a request, and the request (or websocket) itself."""

    session: OIDCSession[Identity]
    connection: HTTPConnection


@dataclass(frozen=True, slots=True)
class PublicSessionContext(Generic[Identity, RequestData]):
    """The token-free view of a session, and the request's data from `load_request_data`."""

    base: PublicSession[Identity]
    data: RequestData | None


LoadRequestData: TypeAlias = Callable[
    [RequestDataContext[Identity]], RequestData | Awaitable[RequestData]
]
CreatePublicSession: TypeAlias = Callable[
    [PublicSessionContext[Identity, RequestData]], object | Awaitable[object]
]


@dataclass(frozen=True, slots=True)
class Runtime(Generic[Identity, RequestData]):
    """The relying party, and what the web layer adds to it. `signs_in`: it has logins.

    `origin` is the scheme and host in browsers; None derives it from each request, which the
    settings allow for local development only. Websockets are also accepted from `trusted_origins`.
    `post_logout_redirect_uri` is "route" for the library's own, "none" or a URL. `apis` are the
    APIs that accept access tokens. `step_ups` are the requirements of the application's guards.
    """

    name: str
    party: RelyingParty[Identity]
    coordinator: RefreshCoordinator[Identity]
    grants: Grants[Identity]
    code_exchanges: CodeExchanges[Identity]
    sign_outs: SingleFlight[object, Any]
    csrf: CSRFTokens
    origin: str | None
    trusted_origins: frozenset[str] = frozenset()
    post_logout_redirect_uri: str = "route"
    render_page: RenderPage | None = None
    load_request_data: LoadRequestData[Identity, RequestData] | None = field(default=None)
    create_public_session: CreatePublicSession[Identity, RequestData] | None = field(default=None)
    apis: list[Any] = field(default_factory=list)
    step_ups: dict[StepUp, None] = field(default_factory=dict)
    signs_in: bool = True

    async def aclose(self) -> None:
        """Wait for logins, sign-outs and refreshes under way, and repeat failed writes to stores.

        Then close the connections to the provider and the stores, each even if another one fails.
        """
        settings = self.party.settings
        patience = settings.provider_timeout + settings.callback_timeout
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.party.sessions.aclose)
            closing.push_async_callback(self.party.provider.aclose)
            closing.push_async_callback(self.coordinator.aclose, patience)
            closing.push_async_callback(self.grants.aclose)
            closing.push_async_callback(self.code_exchanges.aclose)
            closing.push_async_callback(self.sign_outs.wait, patience)
            for api in self.apis:
                closing.push_async_callback(api.aclose)


class Instance(Protocol[Identity, RequestData]):
    """The interface of `OIDC` that the middleware uses."""

    @property
    def runtime(self) -> Runtime[Identity, RequestData]:
        """The instance as the web layer sees it."""
        ...
