"""What serves the requests of an OIDC instance, as the web layer sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from starlette.requests import HTTPConnection

from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.events import Announcer
from fastapi_oidc.flows.callback import CodeExchanges
from fastapi_oidc.flows.endings import SHUTDOWN_SECONDS, Endings
from fastapi_oidc.flows.outcomes import Refreshes
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.grants import Grants
from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.provider import Network
from fastapi_oidc.session.cells import LastSteps
from fastapi_oidc.session.model import Identity, OIDCSession, PublicSession
from fastapi_oidc.session.store import Store
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Engine(Generic[Identity, RequestData]):
    """What all requests of one `OIDC` instance share, whichever registration serves them.

    `identity_type` is the type as which stored identities are read.
    `proofs` is where used DPoP proofs are, which a full store must not forget.
    `records_endings`: the provider may end sessions, because there is a store. `apis` are the APIs
    that accept access tokens. `step_ups` are the requirements of the application's guards. `needed`
    are names of routes that the application must have, each with what to do if it has not.
    `signs_in`: there are logins. At a shutdown, token requests are awaited for `patience` seconds.
    """

    name: str
    identity_type: type[Identity]
    store: Store
    proofs: Store
    network: Network
    endings: Endings
    last_steps: LastSteps
    refreshes: Refreshes[Identity]
    grants: Grants[Identity]
    code_exchanges: CodeExchanges[Identity]
    sign_outs: SingleFlight[object, Any]
    announcer: Announcer
    records_endings: bool
    patience: float
    render_page: RenderPage | None
    load_request_data: LoadRequestData[Identity, RequestData] | None = field()
    create_public_session: CreatePublicSession[Identity, RequestData] | None = field()
    apis: list[Any] = field(default_factory=list)
    step_ups: dict[StepUp, None] = field(default_factory=dict)
    needed: dict[str, str] = field(default_factory=dict)
    signs_in: bool = True

    async def aclose(self) -> None:
        """Wait for logins, sign-outs and refreshes under way, and repeat failed writes to stores.

        Then close the connections to the providers and the store, each even if another one fails.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.store.aclose)
            closing.push_async_callback(self.endings.aclose)
            closing.push_async_callback(self.network.aclose)
            closing.push_async_callback(self.last_steps.wait, SHUTDOWN_SECONDS)
            closing.push_async_callback(self.refreshes.aclose, self.patience)
            closing.push_async_callback(self.grants.aclose, self.patience)
            closing.push_async_callback(self.code_exchanges.aclose, self.patience)
            closing.push_async_callback(self.sign_outs.wait, self.patience)
            for api in self.apis:
                closing.push_async_callback(api.aclose)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class Runtime(Generic[Identity, RequestData]):
    """The registrations that serve a request, and what the web layer adds to them.

    `party` is the first of them. `origin` is the scheme and host in browsers; None derives it from
    each request, which the settings allow for local development only. Websockets are also accepted
    from `trusted_origins`. `labels` are the names of several registrations for people.
    """

    engine: Engine[Identity, RequestData]
    party: RelyingParty[Identity]
    csrf: CSRFTokens
    origin: str | None
    trusted_origins: frozenset[str]
    labels: Mapping[str, str]
    cookie: bytes
    """The name of the session cookie."""

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.engine.name


class Registrations(Protocol[Identity, RequestData]):
    """The registrations of an `OIDC` instance: one, several, or those that a function finds."""

    @property
    def engine(self) -> Engine[Identity, RequestData]:
        """What all requests share."""
        ...

    @property
    def fixed(self) -> Runtime[Identity, RequestData] | None:
        """What serves every request; None if a function finds it for each request."""
        ...

    async def serving(self, connection: HTTPConnection) -> Runtime[Identity, RequestData] | None:
        """What serves this request; None for a request without a registration."""
        ...
