"""Puts the layers of one OIDC instance together."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Generic, Literal, TypedDict, cast, get_type_hints

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.application import (
    Application,
    BeforeSessionPersist,
    IdentityContext,
    ResolveIdentity,
)
from fastapi_oidc.flows.ending_writer import EndingWriter
from fastapi_oidc.flows.events import Announcer, EventListener
from fastapi_oidc.flows.redemptions import Redemptions
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.flows.register import Register
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.shared import REMEMBERED, Shared
from fastapi_oidc.once import Flights
from fastapi_oidc.provider import HTTPOptions, Provider, Registration
from fastapi_oidc.session.abilities import Bindable
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookie_keeper import CookieKeeper
from fastapi_oidc.session.cookies import CookieNames, SameSite
from fastapi_oidc.session.given import require_stores
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.session.keeper import Keeper
from fastapi_oidc.session.logout_cookie import LogoutCookie
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import Identity
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import SessionCookie
from fastapi_oidc.session.store_keeper import StoreKeeper
from fastapi_oidc.session.stores import RefreshLock, RevocationStore, SessionStore
from fastapi_oidc.session.transaction_cookies import TransactionCookies
from fastapi_oidc.settings import OIDCSettings, revealed
from fastapi_oidc.web.csrf import CSRFTokens
from fastapi_oidc.web.pages import RenderPage
from fastapi_oidc.web.site import CreatePublicSession, LoadRequestData, RequestData, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[Identity]):
    """What an application gave to its OIDC object."""

    settings: OIDCSettings
    resolve_identity: ResolveIdentity[Identity] | None
    identity_type: type[Identity] | None
    before_session_persist: BeforeSessionPersist[Identity] | None
    session_store: SessionStore[Identity] | Literal["memory"] | None
    back_channel_logout_store: RevocationStore | Literal["memory"] | None
    refresh_lock: RefreshLock | None
    render_page: RenderPage | None
    on_event: EventListener | None
    http: HTTPOptions | None
    transport: httpx.AsyncBaseTransport | None
    clock: Clock


class Options(TypedDict, Generic[Identity, RequestData], total=False):
    """The keywords of `OIDC` that have no async form of their own, for type checkers."""

    identity_type: type[Identity] | None
    before_session_persist: BeforeSessionPersist[Identity] | None
    create_public_session: CreatePublicSession[Identity, RequestData] | None
    session_store: SessionStore[Identity] | Literal["memory"] | None
    back_channel_logout_store: RevocationStore | Literal["memory"] | None
    refresh_lock: RefreshLock | None
    render_page: RenderPage | None
    on_event: EventListener | None
    http: HTTPOptions | None
    transport: httpx.AsyncBaseTransport | None
    clock: Clock | None


def assembled(
    parts: Parts[Identity],
    load_request_data: LoadRequestData[Identity, RequestData] | None,
    create_public_session: CreatePublicSession[Identity, RequestData] | None,
) -> Site[Identity, RequestData]:
    """The instance as the web layer sees it; raises ConfigurationError."""
    require_stores(parts.session_store, parts.back_channel_logout_store, parts.refresh_lock)
    settings, keys = parts.settings, parts.settings.key_ring()
    party = _party(parts, keys)
    patience = 2 * settings.provider_timeout + party.policy.callback_timeout
    return Site(
        name=settings.name,
        party=party,
        refresher=Refresher(party),
        redemptions=Redemptions(parts.clock, patience),
        sign_outs=Flights(),
        csrf=CSRFTokens(keys.keys("csrf")),
        origin=settings.origin,
        trusted_origins=frozenset(settings.trusted_origins),
        post_logout_redirect_uri=settings.post_logout_redirect_uri,
        render_page=parts.render_page,
        load_request_data=load_request_data,
        create_public_session=create_public_session,
    )


def _party(parts: Parts[Identity], keys: KeyRing) -> RelyingParty[Identity]:
    """What the flows rely on."""
    settings, names = parts.settings, parts.settings.cookie_names()
    codec = SessionCodec(_identity_type(parts))
    keeper = _keeper(parts, codec, keys, names)
    _require_use_kept(settings, keeper)
    announcer = _announcer(parts)
    return RelyingParty(
        policy=settings.policy(),
        provider=provider_of(settings, parts.clock, http=parts.http, transport=parts.transport),
        keeper=keeper,
        names=names,
        transactions=_transactions(settings, keys, names),
        logouts=LogoutCookie(keys.sealer("logout"), names),
        clock=parts.clock,
        application=_application(parts),
        codec=codec,
        announcer=announcer,
        register=Register(parts.clock, idle_timeout=settings.idle_timeout),
        endings=EndingWriter(keeper, parts.clock, announcer),
        shared=_shared(parts, codec, keys),
    )


def _transactions(settings: OIDCSettings, keys: KeyRing, names: CookieNames) -> TransactionCookies:
    # Browsers refuse SameSite=None without Secure; over http only a same-site provider can post.
    is_posted = settings.response_mode == "form_post" and names.secure
    same_site: SameSite = "none" if is_posted else "lax"
    return TransactionCookies(keys.sealer("login"), names, same_site=same_site)


def _require_use_kept(settings: OIDCSettings, keeper: Keeper[Identity]) -> None:
    if settings.idle_timeout is not None and not keeper.keeps_use:
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            "idle_timeout needs a session store that remembers use: give yours a method "
            "touch(id, at), as docs/sessions.md says, or keep sessions in cookies",
        )


def provider_of(
    settings: OIDCSettings,
    clock: Clock,
    *,
    http: HTTPOptions | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Provider:
    """The provider that the settings name; raises ConfigurationError."""
    options = http or settings.http_options()
    if "tls_client_auth" in (settings.client_auth_method or "") and not options.shows_certificate:
        raise ConfigurationError(
            Code.CONFIGURATION_KEY_UNUSABLE,
            f"{settings.client_auth_method} needs client_certificate_file",
        )
    return Provider(
        settings.issuer,
        Registration(
            client_id=settings.client_id,
            client_secret=revealed(settings.client_secret),
            authentication=settings.authentication(),
            algorithms=settings.algorithms(),
            userinfo_algorithms=settings.userinfo_algorithms(),
            assertion_audience=settings.client_assertion_audience,
        ),
        clock=clock,
        allow_insecure_http=settings.allow_insecure_http,
        timeout=settings.provider_timeout,
        transport=transport,
        http=options,
        tenants=settings.tenants(),
    )


def _keeper(
    parts: Parts[Identity],
    codec: SessionCodec[Identity],
    keys: KeyRing,
    names: CookieNames,
) -> Keeper[Identity]:
    clock, revocations = parts.clock, _revocations(parts)
    if parts.session_store is None:
        limit, sealer = parts.settings.max_cookie_size, keys.sealer("session")
        cookie = SessionCookie(codec, sealer, names, max_cookie_size=limit, clock=clock)
        return CookieKeeper(cookie, names, clock=clock, revocations=revocations)
    store = parts.session_store
    if store == "memory":
        store = MemorySessionStore(clock=clock)
    if isinstance(store, Bindable):
        store.bind(codec, keys.sealer("row"))
    reference = ReferenceCookie(keys.sealer("reference"), names, clock=clock)
    return StoreKeeper(store, reference, names, clock=clock, revocations=revocations)


def _shared(
    parts: Parts[Identity], codec: SessionCodec[Identity], keys: KeyRing
) -> Shared[Identity] | None:
    if parts.refresh_lock is None:
        return None
    # A use that another process has seen is worth knowing for as long as it counts.
    remembered = max(REMEMBERED, parts.settings.idle_timeout or 0)
    return Shared(parts.refresh_lock, codec, keys.sealer("refresh"), remembered=remembered)


def _revocations(parts: Parts[Identity]) -> RevocationStore | None:
    if parts.back_channel_logout_store == "memory":
        return MemoryRevocationStore(clock=parts.clock)
    return parts.back_channel_logout_store


def _announcer(parts: Parts[Identity]) -> Announcer:
    if inspect.iscoroutinefunction(parts.on_event):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "on_event is not async: it is called amid other work"
        )
    return Announcer(parts.on_event)


def _application(parts: Parts[Identity]) -> Application[Identity]:
    resolve = parts.resolve_identity or cast("ResolveIdentity[Identity]", standard_identity)
    return Application(resolve, parts.before_session_persist)


def standard_identity(context: IdentityContext) -> StandardIdentity:
    """The profile claims of the ID token, and of UserInfo where it has them."""
    claims = context.id_token_claims
    return StandardIdentity.from_claims(str(claims["sub"]), claims, context.user_info or {})


def _identity_type(parts: Parts[Identity]) -> type[Identity]:
    """How a kept identity is read back."""
    if parts.identity_type is not None:
        return parts.identity_type
    resolve = parts.resolve_identity or standard_identity
    try:
        return cast("type[Identity]", get_type_hints(resolve)["return"])
    except (KeyError, NameError, TypeError):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "annotate what resolve_identity returns, or give identity_type",
        ) from None
