"""What serves a request: engine, registrations and CSRF tokens; its session, identity and data."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar

from itsdangerous import Signer
from starlette.requests import HTTPConnection

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, SessionError, misconfigured
from fastapi_oidc.events import Announcer
from fastapi_oidc.flows.callback import LoginOutcome
from fastapi_oidc.flows.endings import Endings
from fastapi_oidc.flows.relying_party import Refreshes, RelyingParty
from fastapi_oidc.grants import Grants
from fastapi_oidc.protocol.access_token import StepUp
from fastapi_oidc.provider.network import Network
from fastapi_oidc.session.cells import LastSteps
from fastapi_oidc.session.model import (
    AnySession,
    EndReason,
    Identity,
    OIDCSession,
    PublicSession,
)
from fastapi_oidc.session.store import MemoryStore, Store
from fastapi_oidc.web.pages import RenderPage

CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf_token"


class CSRFTokens:
    """Makes and checks the CSRF tokens of sessions. A token is valid as long as its session.

    `keys` are the newest first: the newest signs, all of them verify. Each token is another random
    text that is signed for the session, so a page's compressed length reveals nothing about the
    next token (BREACH).
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = list(reversed(keys))

    def _signer(self, session: AnySession) -> Signer:
        salt = f"fastapi_oidc.csrf.{session.id}"
        return Signer(self._keys, salt, key_derivation="hmac", digest_method=sha256)

    def token(self, session: AnySession) -> str:
        """A token for one response."""
        return self._signer(session).sign(secrets.token_urlsafe(16)).decode()

    def require(self, session: AnySession, token: str | None) -> None:
        """Raises SessionError (session.csrf) unless `token` is the session's own."""
        if not self._signer(session).validate((token or "").encode(errors="replace")):
            explanation = (
                f"the request has no CSRF token of this session, neither in the header "
                f"{CSRF_HEADER} nor in the form field {CSRF_FIELD}"
            )
            raise SessionError(Code.SESSION_CSRF, explanation)


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


@dataclass(eq=False, kw_only=True)
class Engine:
    """What all requests of one `OIDC` instance share, whichever registration serves them.

    `identity_type` is the type as which stored identities are read. `given` is the store that the
    application has configured, if any. `signs_in`: there are logins. At a shutdown, token requests
    are awaited for `patience` seconds.
    """

    name: str
    identity_type: type[Any]
    clock: Clock
    given: Store | None
    network: Network
    announcer: Announcer
    patience: float
    render_page: RenderPage | None
    load_request_data: LoadRequestData[Any, Any] | None = field()
    create_public_session: CreatePublicSession[Any, Any] | None = field()
    signs_in: bool = True

    def __post_init__(self) -> None:
        """Make what is shared."""
        clock, given = self.clock, self.given
        self.store = MemoryStore(clock=clock, evicts=True) if given is None else given
        self.proofs = MemoryStore(clock=clock) if given is None else given
        """Where used DPoP proofs are, which a full store must not forget."""
        self.endings, self.last_steps = Endings(clock, are_recorded=given is not None), LastSteps()
        self.refreshes, self.grants = Refreshes(clock), Grants(clock)
        self.code_exchanges = SingleFlight[str, LoginOutcome]()
        self.sign_outs = SingleFlight[object, Any]()
        self.apis = list[Any]()
        """The APIs that accept access tokens."""
        self.step_ups = dict[StepUp, None]()
        """The requirements of the application's guards."""
        self.needed = dict[str, str]()
        """Names of routes that the application must have, with what to do if it has not."""

    def requires(self, wish: str) -> bool:
        """Whether a guard requires what a login can ask for: `max_age` or `acr_values`."""
        return any(getattr(each, wish) not in (None, ()) for each in self.step_ups)

    async def aclose(self) -> None:
        """Wait for logins, sign-outs and refreshes under way, and repeat failed writes to stores.

        Then close the connections to the providers and the store, each even if another one fails.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.store.aclose)
            closing.push_async_callback(self.network.aclose)
            closing.push_async_callback(self.last_steps.aclose)
            closing.push_async_callback(self.refreshes.tasks.wait, self.patience)
            closing.push_async_callback(self.grants.requests.wait, self.patience)
            closing.push_async_callback(self.code_exchanges.wait, self.patience)
            closing.push_async_callback(self.sign_outs.wait, self.patience)
            for api in self.apis:
                closing.push_async_callback(api.stop_looking)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class Runtime:
    """The registrations that serve a request, and what the web layer adds to them.

    `party` is the first of them. `origin` is the scheme and host in browsers; None derives it from
    each request, which the settings allow for local development only. Websockets are also accepted
    from `trusted_origins`. `labels` are the names of several registrations for people.
    """

    engine: Engine
    party: RelyingParty
    csrf: CSRFTokens
    origin: str | None
    trusted_origins: frozenset[str]
    labels: Mapping[str, str]
    cookie: bytes
    """The name of the session cookie."""


class Registrations(Protocol):
    """The registrations of an `OIDC` instance: one, several, or those that a function finds."""

    engine: Engine
    """What all requests share."""
    fixed: Runtime | None
    """What serves every request; None if a function finds it for each request."""

    async def serving(self, connection: HTTPConnection) -> Runtime | None:
        """What serves this request; None for a request without a registration."""
        ...


@dataclass(frozen=True, slots=True)
class OIDCLocals(Generic[Identity, RequestData]):
    """The user of a request. Without a signed-in user, `session`, `identity` and `data` are None.

    `data` is the result of `load_request_data` for this request; it is never stored. `ended` says
    why the browser's session has ended. `unavailable` is set for a session that cannot be used
    right now, because its access token has expired and the provider does not respond.
    """

    session: OIDCSession[Identity] | None = None
    data: RequestData | None = None
    ended: EndReason | None = None
    unavailable: SessionError | None = field(default=None, repr=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say what there is. Templates would take AttributeError for a value that is false."""
            has = "session, identity, data, ended, unavailable and is_authenticated"
            if name.startswith("_"):
                raise AttributeError(name)
            raise misconfigured(f"OIDCLocals has no {name!r}: it has {has}")

    def __bool__(self) -> bool:
        """Whether the request has a signed-in user."""
        return self.is_authenticated

    @property
    def identity(self) -> Identity | None:
        """The application's identity of the signed-in user."""
        return None if self.session is None else self.session.identity

    @property
    def is_authenticated(self) -> bool:
        """Whether the request has a signed-in user."""
        return self.session is not None


class Unread:
    """In place of the locals where no session is loaded: nobody knows who the user is."""

    def __init__(self, instance: str, where: str) -> None:
        self._instance, self._where = instance, where

    def __bool__(self) -> NoReturn:
        self.__getattr__("")

    def __getattr__(self, name: str) -> NoReturn:
        """Raises ConfigurationError: nobody has read the session yet."""
        read = f"{self._instance}.{name}".rstrip(".")
        raise misconfigured(f"request.state.{read} is read {self._where}")
