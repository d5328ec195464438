"""Creates the parts of an OIDC instance and connects them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any, Final, Generic, TypeAlias, TypedDict, get_type_hints

import httpx
from starlette.requests import Request

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.events import Announcer, Event, EventListener
from fastapi_oidc.flows.callback import longest_login
from fastapi_oidc.flows.relying_party import (
    Application,
    BeforeSessionPersist,
    IdentityContext,
    PersistContext,
    RelyingParty,
    ResolveIdentity,
    standard_identity,
)
from fastapi_oidc.flows.sessions import Sessions
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.provider.client_endpoints import Registration
from fastapi_oidc.provider.network import HTTPOptions, Network
from fastapi_oidc.provider.provider import Provider
from fastapi_oidc.session.cells import Cells
from fastapi_oidc.session.cookies import (
    REFERENCE_BYTES,
    CookieNames,
    KeyRing,
    SameSite,
    Sealer,
    TransactionCookies,
)
from fastapi_oidc.session.model import Identity
from fastapi_oidc.session.own_store import RefreshLock, SealedSession, SessionStore, store_of
from fastapi_oidc.session.session_cookie import (
    CookieForm,
    ReferenceCookie,
    SessionCodec,
    SessionCookie,
)
from fastapi_oidc.session.store import Store
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.misuse import require_kind, require_takes
from fastapi_oidc.web.pages import Page, RenderPage
from fastapi_oidc.web.runtime import (
    CreatePublicSession,
    CSRFTokens,
    Engine,
    LoadRequestData,
    PublicSessionContext,
    RequestData,
    RequestDataContext,
    Runtime,
)

PATIENCE: Final = 180.0
"""Seconds for which a shutdown waits for token requests at the most, if a function finds
registrations: no settings allow more.
"""

_USUAL: Final = {"session_lifetime": 1800, "idle_timeout": 300, "max_age": 60}
"""Seconds; with fewer of them people are seldom served, and another unit may be meant."""

GivenStore: TypeAlias = Store | SessionStore | str
"""A store, an application's own, "memory", or the URL of a Redis, PostgreSQL or SQLite database."""


class Options(TypedDict, Generic[Identity, RequestData], total=False):
    """The keyword arguments of `OIDC` that are the same in all its overloads."""

    name: str | None
    identity_type: type[Identity] | None
    before_session_persist: BeforeSessionPersist[Identity] | None
    create_public_session: CreatePublicSession[Identity, RequestData] | None
    session_store: GivenStore | None
    back_channel_logout_store: GivenStore | None
    refresh_lock: RefreshLock | None
    downstream_apis: Sequence[DownstreamAPI]
    render_page: RenderPage | None
    on_event: EventListener | None
    http: HTTPOptions | None
    transport: httpx.AsyncBaseTransport | None
    clock: Clock | None


class Assembly:
    """Makes the engine of an instance, and what its registrations need to serve requests.

    A registration can be made again at any time: everything that must not be lost is in the engine.
    Raises ConfigurationError.
    """

    def __init__(
        self,
        name: str,
        settings: Collection[OIDCSettings],
        resolve_identity: ResolveIdentity[Any] | None,
        load_request_data: LoadRequestData[Any, Any] | None,
        options: Options[Any, Any],
    ) -> None:
        require_kind("clock of OIDC", options.get("clock"), Clock, NoneType)
        require_kind("http of OIDC", options.get("http"), HTTPOptions, NoneType)
        self._options, self._clock = options, options.get("clock")
        _require_callbacks(resolve_identity, load_request_data, options)
        clock = self._clock or Clock()
        resolve = resolve_identity or standard_identity
        self._application = Application(resolve, options.get("before_session_persist"))
        identity_type = _identity_type(resolve_identity, options)
        self._codec = SessionCodec(identity_type)
        self._apis = _apis(options.get("downstream_apis", ()))
        self._in_store = options.get("session_store") is not None
        self._is_alone, self._is_found = len(settings) == 1, not settings
        self.engine = Engine(
            name=name,
            identity_type=identity_type,
            clock=clock,
            given=_store(options, clock),
            network=Network(options.get("transport")),
            announcer=_announcer(clock, options.get("on_event")),
            patience=max(map(longest_login, settings), default=PATIENCE),
            render_page=options.get("render_page"),
            load_request_data=load_request_data,
            create_public_session=options.get("create_public_session"),
        )

    def runtime(self, registered: Mapping[str, OIDCSettings], name: str) -> Runtime:
        """What serves requests by these registrations, by label. `name` is that of the cookies."""
        first = next(iter(registered.values()))
        keys, names = first.key_ring(), first.cookie_names(name)
        announcer = self._announcer_of(*registered)
        sessions = self._sessions(first, keys, names, announcer)
        together: list[RelyingParty] = []
        for settings in registered.values():
            together.append(self._party(settings, keys, sessions, together))
        return Runtime(
            engine=self.engine,
            party=together[0],
            csrf=CSRFTokens(keys.keys("csrf")),
            origin=first.base_url,
            trusted_origins=frozenset(first.trusted_origins),
            labels={settings.name: label for label, settings in registered.items()},
            cookie=names.session.encode(),
        )

    def _announcer_of(self, name: str, *others: str) -> Announcer:
        """For the events of one of several registrations, or of what they share."""
        announcer = self.engine.announcer
        return announcer if others or self._is_alone else announcer.of(name)

    def _party(
        self,
        settings: OIDCSettings,
        keys: KeyRing,
        sessions: Sessions,
        together: list[RelyingParty],
    ) -> RelyingParty:
        clock = self._clock or Clock(drift=settings.clock_drift)
        http, network = self._options.get("http"), self.engine.network
        for setting, usual in _USUAL.items():
            self.engine.announcer.advise_on_seconds(setting, getattr(settings, setting), usual)
        return RelyingParty(
            settings=settings,
            issuer=settings.trusted_issuer(),
            provider=provider_of(settings, clock, http=http, network=network),
            sessions=sessions,
            refreshes=self.engine.refreshes,
            transactions=self._transactions(settings, keys, sessions.names),
            logouts=self._sealer("logout", settings, keys),
            clock=clock,
            application=self._application,
            announcer=self._announcer_of(settings.name),
            downstream_apis=self._apis,
            together=together,
        )

    def _sessions(
        self, settings: OIDCSettings, keys: KeyRing, names: CookieNames, announcer: Announcer
    ) -> Sessions:
        clock, engine = self._clock or Clock(), self.engine
        form: CookieForm
        if self._in_store:
            form = ReferenceCookie(self._sealer("reference", settings, keys), names)
        else:
            limit, sealer = settings.max_cookie_size, self._sealer("session", settings, keys)
            form = SessionCookie(self._codec, sealer, names, max_cookie_size=limit)
        return Sessions(
            cells=Cells(engine.store, keys.sealer("row"), clock, names.prefix, engine.last_steps),
            form=form,
            names=names,
            codec=self._codec,
            clock=clock,
            announcer=announcer,
            endings=engine.endings,
            in_store=self._in_store,
        )

    def _transactions(
        self, settings: OIDCSettings, keys: KeyRing, names: CookieNames
    ) -> TransactionCookies:
        of_session = REFERENCE_BYTES if self._in_store else settings.max_cookie_size
        # Browsers refuse SameSite=None without Secure. So over http only a same-site provider can
        # post.
        is_posted = settings.response_mode == "form_post" and names.secure
        same_site: SameSite = "none" if is_posted else "lax"
        sealer = self._sealer("login", settings, keys)
        return TransactionCookies(sealer, names, same_site=same_site, reserved=of_session)

    def _sealer(self, purpose: str, settings: OIDCSettings, keys: KeyRing) -> Sealer:
        """The sealer of a cookie. One of a registration that a function finds is of its host too.

        So a cookie is worth nothing at the host of another tenant, even if both have one name.
        """
        return keys.sealer(f"{purpose} {settings.base_url}" if self._is_found else purpose)


def _store(options: Options[Any, Any], clock: Clock) -> Store | None:
    """The one store of the instance; None where nothing is configured."""
    lock = options.get("refresh_lock")
    given = {
        "session_store": options.get("session_store"),
        "back_channel_logout_store": options.get("back_channel_logout_store"),
    }
    chosen = {option: value for option, value in given.items() if value is not None}
    if len(chosen) > 1:
        raise misconfigured(
            "session_store also has what ends sessions: give no back_channel_logout_store"
        )
    if not chosen and lock is not None:
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            "refresh_lock locks a SessionStore of your own: give that as session_store, or as "
            "back_channel_logout_store for sessions in cookies",
        )
    for option, value in chosen.items():
        _require_methods(value)
        return store_of(value, clock, lock=lock, option=option)
    return None


def _require_methods(store: object) -> None:
    """Raise ConfigurationError for a `SessionStore` whose methods take something else."""
    if isinstance(store, SessionStore):
        name = type(store).__name__
        require_takes(f"{name}.get", store.get, str)
        require_takes(f"{name}.set", store.set, str, SealedSession)
        require_takes(f"{name}.delete", store.delete, str)


def _apis(given: Sequence[DownstreamAPI]) -> tuple[DownstreamAPI, ...]:
    if isinstance(given, DownstreamAPI) or not all(isinstance(api, DownstreamAPI) for api in given):
        raise misconfigured("downstream_apis is a list of DownstreamAPI(...)")
    return tuple(given)


def provider_of(
    settings: OIDCSettings, clock: Clock, *, http: HTTPOptions | None = None, network: Network
) -> Provider:
    """The client for the provider in the settings; raises ConfigurationError."""
    options = http or settings.http_options()
    if "tls_client_auth" in (settings.client_auth_method or "") and not options.shows_certificate:
        raise ConfigurationError(
            Code.CONFIGURATION_KEY_UNUSABLE,
            f"{settings.client_auth_method} needs client_certificate_file",
        )
    return Provider(
        settings.trusted_issuer(),
        Registration(
            authentication=settings.authentication(),
            algorithms=settings.algorithms(),
            userinfo_algorithms=settings.userinfo_algorithms(),
            assertion_audience=settings.client_assertion_audience,
        ),
        clock=clock,
        allow_insecure_http=settings.allow_insecure_http,
        timeout=settings.provider_timeout,
        network=network,
        options=options,
    )


def _require_callbacks(resolve: object, load: object, options: Options[Any, Any]) -> None:
    """Raise ConfigurationError for a function of the application that takes something else."""
    require_takes("resolve_identity", resolve, IdentityContext)
    require_takes("load_request_data", load, RequestDataContext)
    require_takes("before_session_persist", options.get("before_session_persist"), PersistContext)
    create = options.get("create_public_session")
    require_takes("create_public_session", create, PublicSessionContext)
    require_takes("render_page", options.get("render_page"), Request, Page)


def _announcer(clock: Clock, on_event: EventListener | None) -> Announcer:
    if on_event is not None:
        require_takes("on_event of OIDC", on_event, Event)
    if inspect.iscoroutinefunction(on_event):
        raise misconfigured("on_event is not async: it is called amid other work")
    return Announcer(clock, on_event)


def _identity_type(resolve: ResolveIdentity[Any] | None, options: Options[Any, Any]) -> type[Any]:
    """The type as which stored identities are read."""
    if (chosen := options.get("identity_type")) is not None:
        return chosen
    try:
        returned: type[Any] = get_type_hints(resolve or standard_identity)["return"]
        return returned
    except (KeyError, NameError, TypeError):
        raise misconfigured(
            "annotate what resolve_identity returns, or give identity_type"
        ) from None
