"""The parts that every flow works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal

from fastapi_oidc.clock import Clock
from fastapi_oidc.flows.application import Application
from fastapi_oidc.flows.ending_writer import EndingWriter
from fastapi_oidc.flows.events import Announcer, Event, EventName
from fastapi_oidc.flows.register import Register
from fastapi_oidc.flows.shared import Shared
from fastapi_oidc.protocol.tenants import Tenants
from fastapi_oidc.provider import Provider
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.keeper import Keeper
from fastapi_oidc.session.logout_cookie import LogoutCookie
from fastapi_oidc.session.model import Identity
from fastapi_oidc.session.transaction_cookies import TransactionCookies


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that flows decide by; times in seconds."""

    issuer: str
    client_id: str
    scope: tuple[str, ...]
    extra_params: Mapping[str, str] = field(default_factory=dict)
    trusted_audiences: frozenset[str] = frozenset()
    tenants: Tenants | None = None
    response_mode: Literal["query", "form_post"] = "query"
    use_par: bool = False
    max_age: int | None = None
    fetch_userinfo: bool = True
    logout_token_without_exp: bool = False
    default_return_path: str = "/"
    session_lifetime: int = 8 * 3600
    refresh_margin: int = 30
    idle_timeout: int | None = None
    default_access_token_lifetime: int = 3600
    provider_timeout: float = 10.0
    callback_timeout: float = 10.0
    revoke_on_local_logout: bool = True


@dataclass(frozen=True, slots=True)
class RelyingParty(Generic[Identity]):
    """One client registered at one OpenID Provider, put together by `OIDC`."""

    policy: Policy
    provider: Provider
    keeper: Keeper[Identity]
    names: CookieNames
    transactions: TransactionCookies
    logouts: LogoutCookie
    clock: Clock
    application: Application[Identity]
    codec: SessionCodec[Identity]
    announcer: Announcer
    register: Register[Identity]
    endings: EndingWriter[Identity]
    shared: Shared[Identity] | None = None

    def announce(
        self,
        name: EventName,
        *,
        sub: str | None = None,
        session_id: str | None = None,
        sid: str | None = None,
    ) -> None:
        """Announce an event that happens now."""
        self.announcer(Event(name, self.clock.now(), sub=sub, session_id=session_id, sid=sid))
