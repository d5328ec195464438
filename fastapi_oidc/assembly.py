"""Creates the parts of one OIDC instance and connects them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypedDict, cast, get_type_hints

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.events import Announcer, EventListener
from fastapi_oidc.flows.callback import CodeExchanges
from fastapi_oidc.flows.local_sessions import LocalSessions
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.flows.relying_party import (
    Application,
    BeforeSessionPersist,
    IdentityContext,
    RelyingParty,
    ResolveIdentity,
)
from fastapi_oidc.grants import Grants
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.provider import HTTPOptions, Provider, Registration
from fastapi_oidc.session.backend import SessionBackend
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookie_backend import CookieBackend, SessionCookie
from fastapi_oidc.session.cookies import CookieNames, SameSite
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.session.logout_cookie import LogoutCookie
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import Identity
from fastapi_oidc.session.outbox import Outbox
from fastapi_oidc.session.records import MemoryRefreshLock, RefreshRecords, SealedRecords
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.store_backend import StoreBackend
from fastapi_oidc.session.stores import RefreshLock, SessionStore, require_option
from fastapi_oidc.session.transaction_cookies import TransactionCookies
from fastapi_oidc.settings import OIDCSettings, revealed
from fastapi_oidc.web.csrf import CSRFTokens
from fastapi_oidc.web.pages import RenderPage
from fastapi_oidc.web.runtime import CreatePublicSession, LoadRequestData, RequestData, Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[Identity]):
    """The arguments of an `OIDC` object."""

    settings: OIDCSettings
    resolve_identity: ResolveIdentity[Identity] | None
    identity_type: type[Identity] | None
    before_session_persist: BeforeSessionPersist[Identity] | None
    session_store: SessionStore[Identity] | Literal["memory"] | None
    back_channel_logout_store: RevocationStore | Literal["memory"] | None
    refresh_lock: RefreshLock | RefreshRecords | None
    downstream_apis: Sequence[DownstreamAPI]
    render_page: RenderPage | None
    on_event: EventListener | None
    http: HTTPOptions | None
    transport: httpx.AsyncBaseTransport | None
    clock: Clock


class Options(TypedDict, Generic[Identity, RequestData], total=False):
    """The keyword arguments of `OIDC` that are the same in all its overloads."""

    identity_type: type[Identity] | None
    before_session_persist: BeforeSessionPersist[Identity] | None
    create_public_session: CreatePublicSession[Identity, RequestData] | None
    session_store: SessionStore[Identity] | Literal["memory"] | None
    back_channel_logout_store: RevocationStore | Literal["memory"] | None
    refresh_lock: RefreshLock | RefreshRecords | None
    downstream_apis: Sequence[DownstreamAPI]
    render_page: RenderPage | None
    on_event: EventListener | None
    http: HTTPOptions | None
    transport: httpx.AsyncBaseTransport | None
    clock: Clock | None


def assembled(
    parts: Parts[Identity],
    load_request_data: LoadRequestData[Identity, RequestData] | None,
    create_public_session: CreatePublicSession[Identity, RequestData] | None,
) -> Runtime[Identity, RequestData]:
    """The instance as the web layer sees it; raises ConfigurationError."""
    require_option("session_store", parts.session_store, SessionStore, memory=True)
    revocations = parts.back_channel_logout_store
    require_option("back_channel_logout_store", revocations, RevocationStore, memory=True)
    require_option("refresh_lock", parts.refresh_lock, RefreshLock, RefreshRecords)
    settings, keys = parts.settings, parts.settings.key_ring()
    party = _party(parts, keys)
    coordinator = RefreshCoordinator(party)
    patience = 2 * settings.provider_timeout + party.policy.callback_timeout
    return Runtime(
        name=settings.name,
        party=party,
        coordinator=coordinator,
        grants=Grants(party, coordinator),
        code_exchanges=CodeExchanges(parts.clock, patience),
        sign_outs=SingleFlight(),
        csrf=CSRFTokens(keys.keys("csrf")),
        origin=settings.origin,
        trusted_origins=frozenset(settings.trusted_origins),
        post_logout_redirect_uri=settings.post_logout_redirect_uri,
        render_page=parts.render_page,
        load_request_data=load_request_data,
        create_public_session=create_public_session,
    )


def _party(parts: Parts[Identity], keys: KeyRing) -> RelyingParty[Identity]:
    """The relying party that the flows use."""
    settings, names = parts.settings, parts.settings.cookie_names()
    codec, store = SessionCodec(_identity_type(parts)), _session_store(parts)
    backend = _backend(parts, store, codec, keys, names)
    _require_last_use(settings, backend)
    announcer = _announcer(parts)
    records, own = _records(parts, store), MemoryRefreshLock(clock=parts.clock)
    lock = parts.refresh_lock if isinstance(parts.refresh_lock, RefreshLock) else None
    return RelyingParty(
        policy=settings.policy(),
        provider=provider_of(settings, parts.clock, http=parts.http, transport=parts.transport),
        backend=backend,
        records=SealedRecords(records or own, keys.sealer("record")),
        names=names,
        transactions=_transactions(settings, keys, names),
        logouts=LogoutCookie(keys.sealer("logout"), names),
        clock=parts.clock,
        application=_application(parts),
        codec=codec,
        announcer=announcer,
        sessions=LocalSessions(parts.clock),
        outbox=Outbox(parts.clock, announcer),
        downstream_apis=_apis(parts),
        has_shared_records=records is not None,
        refresh_lock=lock,
    )


def _apis(parts: Parts[Identity]) -> tuple[DownstreamAPI, ...]:
    if not all(isinstance(api, DownstreamAPI) for api in parts.downstream_apis):
        explanation = "downstream_apis is a list of DownstreamAPI(...)"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
    return tuple(parts.downstream_apis)


def _transactions(settings: OIDCSettings, keys: KeyRing, names: CookieNames) -> TransactionCookies:
    # Browsers refuse SameSite=None without Secure. So over http only a same-site provider can post.
    is_posted = settings.response_mode == "form_post" and names.secure
    same_site: SameSite = "none" if is_posted else "lax"
    return TransactionCookies(keys.sealer("login"), names, same_site=same_site)


def _require_last_use(settings: OIDCSettings, backend: SessionBackend[Identity]) -> None:
    if settings.idle_timeout is not None and not backend.records_last_use:
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            "idle_timeout needs a session_store with touch() and records_last_use = True "
            "(docs/sessions.md), or sessions in cookies",
        )


def provider_of(
    settings: OIDCSettings,
    clock: Clock,
    *,
    http: HTTPOptions | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Provider:
    """The client for the provider in the settings; raises ConfigurationError."""
    _require_transport(transport)
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


def _require_transport(transport: object) -> None:
    """Refuse a transport of another library, such as httpx2: its errors are not httpx errors."""
    if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
        kind = f"{type(transport).__module__}.{type(transport).__qualname__}"
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"transport is a {kind}; give an async transport of httpx, as httpx.ASGITransport is",
        )


def _session_store(parts: Parts[Identity]) -> SessionStore[Identity] | None:
    if parts.session_store == "memory":
        return MemorySessionStore(clock=parts.clock)
    return parts.session_store


def _backend(
    parts: Parts[Identity],
    store: SessionStore[Identity] | None,
    codec: SessionCodec[Identity],
    keys: KeyRing,
    names: CookieNames,
) -> SessionBackend[Identity]:
    clock, revocations = parts.clock, _revocations(parts)
    if store is None:
        limit, sealer = parts.settings.max_cookie_size, keys.sealer("session")
        cookie = SessionCookie(codec, sealer, names, max_cookie_size=limit, clock=clock)
        return CookieBackend(cookie, names, clock=clock, revocations=revocations)
    store.bind(codec, keys.sealer("row"))
    reference = ReferenceCookie(keys.sealer("reference"), names, clock=clock)
    return StoreBackend(store, reference, names, codec, clock=clock, revocations=revocations)


def _records(parts: Parts[Identity], store: SessionStore[Identity] | None) -> RefreshRecords | None:
    """The refresh records that processes may share: the `refresh_lock`, or those of the store."""
    if isinstance(parts.refresh_lock, RefreshRecords):
        return parts.refresh_lock
    return None if store is None else store.records


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
    """The profile claims of the ID token; claims of UserInfo take precedence."""
    claims = context.id_token_claims
    return StandardIdentity.from_claims(str(claims["sub"]), claims, context.user_info or {})


def _identity_type(parts: Parts[Identity]) -> type[Identity]:
    """The type as which stored identities are read."""
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
