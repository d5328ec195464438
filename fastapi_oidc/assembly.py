"""Creates the parts of one OIDC instance and connects them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypedDict, cast, get_type_hints

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.events import Announcer, EventListener
from fastapi_oidc.flows.callback import CodeExchanges
from fastapi_oidc.flows.outcomes import Postponements
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.flows.relying_party import (
    Application,
    BeforeSessionPersist,
    IdentityContext,
    RelyingParty,
    ResolveIdentity,
)
from fastapi_oidc.flows.sessions import Sessions
from fastapi_oidc.grants import Grants
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.provider import HTTPOptions, Provider, Registration
from fastapi_oidc.session.cells import Cells
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookies import CookieNames, SameSite
from fastapi_oidc.session.copies import CookieForm
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.session.logout_cookie import LogoutCookie
from fastapi_oidc.session.memory_store import MemoryStore
from fastapi_oidc.session.model import Identity
from fastapi_oidc.session.own_store import RefreshLock, SessionStore
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import SessionCookie
from fastapi_oidc.session.store import Store
from fastapi_oidc.session.store_options import store_of
from fastapi_oidc.session.transaction_cookies import REFERENCE_BYTES, TransactionCookies
from fastapi_oidc.settings import OIDCSettings, revealed
from fastapi_oidc.web.csrf import CSRFTokens
from fastapi_oidc.web.pages import RenderPage
from fastapi_oidc.web.runtime import CreatePublicSession, LoadRequestData, RequestData, Runtime

GivenStore: TypeAlias = Store | SessionStore | str
"""A store, an application's own, "memory", or the URL of a Redis, PostgreSQL or SQLite database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[Identity]):
    """The arguments of an `OIDC` object."""

    settings: OIDCSettings
    resolve_identity: ResolveIdentity[Identity] | None
    identity_type: type[Identity] | None
    before_session_persist: BeforeSessionPersist[Identity] | None
    session_store: GivenStore | None
    back_channel_logout_store: GivenStore | None
    refresh_lock: RefreshLock | None
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
    session_store: GivenStore | None
    back_channel_logout_store: GivenStore | None
    refresh_lock: RefreshLock | None
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
    settings, keys = parts.settings, parts.settings.key_ring()
    party = _party(parts, keys)
    coordinator: RefreshCoordinator[Identity] = RefreshCoordinator(
        Postponements(parts.clock, party.announcer)
    )
    patience = 2 * settings.provider_timeout + party.settings.callback_timeout
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
    announcer = _announcer(parts)
    return RelyingParty(
        settings=settings,
        provider=provider_of(settings, parts.clock, http=parts.http, transport=parts.transport),
        sessions=_sessions(parts, keys, announcer),
        transactions=_transactions(parts, keys, names),
        logouts=LogoutCookie(keys.sealer("logout"), names),
        clock=parts.clock,
        application=_application(parts),
        announcer=announcer,
        downstream_apis=_apis(parts),
    )


def _sessions(parts: Parts[Identity], keys: KeyRing, announcer: Announcer) -> Sessions[Identity]:
    clock, names = parts.clock, parts.settings.cookie_names()
    codec, store = SessionCodec(_identity_type(parts)), _store(parts)
    form: CookieForm[Identity]
    if parts.session_store is not None:
        form = ReferenceCookie(keys.sealer("reference"), names, clock=clock)
    else:
        limit, sealer = parts.settings.max_cookie_size, keys.sealer("session")
        form = SessionCookie(codec, sealer, names, max_cookie_size=limit, clock=clock)
    return Sessions(
        Cells(
            store or MemoryStore(clock=clock, evicts=True),
            keys.sealer("row"),
            clock,
            parts.settings.name,
        ),
        form,
        names,
        codec,
        clock=clock,
        announcer=announcer,
        in_store=parts.session_store is not None,
        records_endings=store is not None,
    )


def _store(parts: Parts[Identity]) -> Store | None:
    """The one store of the instance; None where nothing is configured."""
    lock = parts.refresh_lock
    given = {
        "session_store": parts.session_store,
        "back_channel_logout_store": parts.back_channel_logout_store,
    }
    chosen = {option: value for option, value in given.items() if value is not None}
    if len(chosen) > 1:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "session_store also has what ends sessions: give no back_channel_logout_store",
        )
    if not chosen and lock is not None:
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            "refresh_lock locks a SessionStore of your own: give that as session_store, or as "
            "back_channel_logout_store for sessions in cookies",
        )
    for option, value in chosen.items():
        return store_of(value, parts.clock, lock=lock, option=option)
    return None


def _apis(parts: Parts[Identity]) -> tuple[DownstreamAPI, ...]:
    if not all(isinstance(api, DownstreamAPI) for api in parts.downstream_apis):
        explanation = "downstream_apis is a list of DownstreamAPI(...)"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
    return tuple(parts.downstream_apis)


def _transactions(parts: Parts[Identity], keys: KeyRing, names: CookieNames) -> TransactionCookies:
    settings = parts.settings
    of_session = settings.max_cookie_size if parts.session_store is None else REFERENCE_BYTES
    # Browsers refuse SameSite=None without Secure. So over http only a same-site provider can post.
    is_posted = settings.response_mode == "form_post" and names.secure
    same_site: SameSite = "none" if is_posted else "lax"
    return TransactionCookies(keys.sealer("login"), names, same_site=same_site, reserved=of_session)


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


def _announcer(parts: Parts[Identity]) -> Announcer:
    if inspect.iscoroutinefunction(parts.on_event):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "on_event is not async: it is called amid other work"
        )
    return Announcer(parts.on_event)


def _application(parts: Parts[Identity]) -> Application[Identity]:
    resolve = parts.resolve_identity or cast("ResolveIdentity[Identity]", standard_identity)
    return Application(resolve, parts.before_session_persist)


async def standard_identity(context: IdentityContext) -> StandardIdentity:
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
