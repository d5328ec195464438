"""Creates the parts of an OIDC instance and connects them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypedDict, get_type_hints

import httpx
from starlette.requests import Request

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.events import Announcer, Event, EventListener
from fastapi_oidc.flows import relying_party as parties
from fastapi_oidc.flows.callback import longest_login
from fastapi_oidc.flows.sessions import Sessions
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.provider.document import Registration
from fastapi_oidc.provider.network import HTTPOptions, Network
from fastapi_oidc.provider.provider import Provider
from fastapi_oidc.session import cookies, own_store, session_cookie
from fastapi_oidc.session.cells import Cells
from fastapi_oidc.session.model import Identity
from fastapi_oidc.session.store import Store
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web import runtime
from fastapi_oidc.web.misuse import require_kind, require_takes
from fastapi_oidc.web.pages import Page, RenderPage
from fastapi_oidc.web.runtime import RequestData

PATIENCE: Final = 180.0
"""Seconds for which a shutdown waits for token requests at the most, if a function finds
registrations: no settings allow more.
"""

_USUAL: Final = {"session_lifetime": 1800, "idle_timeout": 300, "max_age": 60}
"""Seconds; with fewer of them people are seldom served, and another unit may be meant."""

GivenStore: TypeAlias = Store | own_store.SessionStore | str
"""A store, an application's own, "memory", or the URL of a Redis, PostgreSQL or SQLite database."""


class Options(TypedDict, Generic[Identity, RequestData], total=False):
    """The keyword arguments of `OIDC` that are the same in all its overloads."""

    name: str | None
    identity_type: type[Identity] | None
    before_session_persist: parties.BeforeSessionPersist[Identity] | None
    create_public_session: runtime.CreatePublicSession[Identity, RequestData] | None
    session_store: GivenStore | None
    back_channel_logout_store: GivenStore | None
    refresh_lock: own_store.RefreshLock | None
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
        resolve_identity: parties.ResolveIdentity[Any] | None,
        load_request_data: runtime.LoadRequestData[Any, Any] | None,
        options: Options[Any, Any],
    ) -> None:
        self._options, self._clock = options, options.get("clock")
        _require_callbacks(resolve_identity, load_request_data, options)
        clock = self._clock or Clock()
        self._application = parties.Application(
            resolve_identity or parties.standard_identity, options.get("before_session_persist")
        )
        identity_type = _identity_type(resolve_identity, options)
        self._codec = session_cookie.SessionCodec(identity_type)
        self._apis = tuple(options.get("downstream_apis", ()))
        for api in self._apis:
            require_kind("each of downstream_apis", api, DownstreamAPI)
        self._in_store = options.get("session_store") is not None
        self._is_alone, self._is_found = len(settings) == 1, not settings
        self.engine = runtime.Engine(
            name=name,
            identity_type=identity_type,
            clock=clock,
            given=_store(options, clock),
            network=Network(options.get("transport")),
            announcer=Announcer(clock, options.get("on_event")),
            patience=max(map(longest_login, settings), default=PATIENCE),
            render_page=options.get("render_page"),
            load_request_data=load_request_data,
            create_public_session=options.get("create_public_session"),
        )

    def serving(self, registered: Mapping[str, OIDCSettings], name: str) -> runtime.Runtime:
        """What serves requests by these registrations, by label. `name` is that of the cookies."""
        first = next(iter(registered.values()))
        names, announcer = first.cookie_names(name), self._announcer_of(*registered)
        sessions = self._sessions(first, names, announcer)
        together: list[parties.RelyingParty] = []
        for settings in registered.values():
            together.append(self._party(settings, sessions, together))
        return runtime.Runtime(
            engine=self.engine,
            party=together[0],
            csrf=runtime.CSRFTokens(first.key_ring().keys("csrf")),
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
        self, settings: OIDCSettings, sessions: Sessions, together: list[parties.RelyingParty]
    ) -> parties.RelyingParty:
        clock = self._clock or Clock(drift=settings.clock_drift)
        http, network = self._options.get("http"), self.engine.network
        for setting, usual in _USUAL.items():
            self.engine.announcer.advise_on_seconds(setting, getattr(settings, setting), usual)
        return parties.RelyingParty(
            settings=settings,
            issuer=settings.trusted_issuer(),
            provider=provider_of(settings, clock, http=http, network=network),
            sessions=sessions,
            refreshes=self.engine.refreshes,
            transactions=self._transactions(settings, sessions.names),
            logouts=self._sealer("logout", settings),
            clock=clock,
            application=self._application,
            announcer=self._announcer_of(settings.name),
            downstream_apis=self._apis,
            together=together,
        )

    def _sessions(
        self, settings: OIDCSettings, names: cookies.CookieNames, announcer: Announcer
    ) -> Sessions:
        clock, engine = self._clock or Clock(), self.engine
        form: session_cookie.CookieForm
        if self._in_store:
            form = session_cookie.ReferenceCookie(self._sealer("reference", settings), names)
        else:
            limit, sealer = settings.max_cookie_size, self._sealer("session", settings)
            form = session_cookie.SessionCookie(self._codec, sealer, names, max_cookie_size=limit)
        rows = settings.key_ring().sealer("row")
        return Sessions(
            cells=Cells(engine.store, rows, clock, names.prefix, engine.last_steps),
            form=form,
            names=names,
            codec=self._codec,
            clock=clock,
            announcer=announcer,
            endings=engine.endings,
            in_store=self._in_store,
        )

    def _transactions(
        self, settings: OIDCSettings, names: cookies.CookieNames
    ) -> cookies.TransactionCookies:
        of_session = cookies.REFERENCE_BYTES if self._in_store else settings.max_cookie_size
        # Browsers refuse SameSite=None without Secure. So over http only a same-site provider can
        # post.
        is_posted = settings.response_mode == "form_post" and names.secure
        same_site: cookies.SameSite = "none" if is_posted else "lax"
        sealer = self._sealer("login", settings)
        return cookies.TransactionCookies(sealer, names, same_site=same_site, reserved=of_session)

    def _sealer(self, purpose: str, settings: OIDCSettings) -> cookies.Sealer:
        """The sealer of a cookie. One of a registration that a function finds is of its host too.

        So a cookie is worth nothing at the host of another tenant, even if both have one name.
        """
        purpose = f"{purpose} {settings.base_url}" if self._is_found else purpose
        return settings.key_ring().sealer(purpose)


def _store(options: Options[Any, Any], clock: Clock) -> Store | None:
    """The one store of the instance; None where nothing is configured."""
    lock, of_logouts = options.get("refresh_lock"), options.get("back_channel_logout_store")
    value, option = options.get("session_store"), "session_store"
    if value is None:
        value, option = of_logouts, "back_channel_logout_store"
    elif of_logouts is not None:
        raise misconfigured(
            "session_store also has what ends sessions: give no back_channel_logout_store"
        )
    if value is not None:
        return own_store.store_of(value, clock, lock=lock, option=option)
    if lock is not None:
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            "refresh_lock locks a SessionStore of your own: give that as session_store, or as "
            "back_channel_logout_store for sessions in cookies",
        )
    return None


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
    require_takes("resolve_identity", resolve, parties.IdentityContext)
    require_takes("load_request_data", load, runtime.RequestDataContext)
    persist, create = options.get("before_session_persist"), options.get("create_public_session")
    require_takes("before_session_persist", persist, parties.PersistContext)
    require_takes("create_public_session", create, runtime.PublicSessionContext)
    require_takes("render_page", options.get("render_page"), Request, Page)
    require_takes("on_event of OIDC", options.get("on_event"), Event)
    if inspect.iscoroutinefunction(options.get("on_event")):
        raise misconfigured("on_event is not async: it is called amid other work")


def _identity_type(
    resolve: parties.ResolveIdentity[Any] | None, options: Options[Any, Any]
) -> type[Any]:
    """The type as which stored identities are read."""
    if (chosen := options.get("identity_type")) is not None:
        return chosen
    try:
        returned: type[Any] = get_type_hints(resolve or parties.standard_identity)["return"]
        return returned
    except (KeyError, NameError, TypeError):
        raise misconfigured(
            "annotate what resolve_identity returns, or give identity_type"
        ) from None
