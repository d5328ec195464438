"""The state of one provider, shared by its endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import httpx
from pydantic import JsonValue

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.testing.faults import Edits, Faults
from fastapi_oidc.testing.grants import Credentials, OPSessions, SingleUse
from fastapi_oidc.testing.keys import SigningKeys
from fastapi_oidc.testing.record import Record
from fastapi_oidc.testing.registration import DevClient, DevResource, DevUser

ResponseMode: TypeAlias = Literal["query", "form_post"]


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """The address of responses; errors can be sent to the client only once it is known."""

    client: DevClient
    redirect_uri: str
    state: str | None
    response_mode: ResponseMode


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request."""

    address: ReturnAddress
    scope: tuple[str, ...]
    nonce: str | None
    code_challenge: str
    prompt: frozenset[str]
    max_age: int | None
    login_hint: str | None
    id_token_hint: str | None
    resource: str | None = None
    acr_values: tuple[str, ...] = ()

    @property
    def client(self) -> DevClient:
        """The client that sent the request."""
        return self.address.client


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """A client's logout request, with the redirect afterwards."""

    client: DevClient | None
    hinted_user: DevUser | None
    return_url: str | None

    @property
    def client_id(self) -> str | None:
        """The client that sent the request, if known."""
        return self.client.client_id if self.client else None


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The lifetimes of codes, tokens, pushed requests and pages, in seconds."""

    code: int = 60
    access_token: int = 300
    id_token: int = 300
    refresh_token: int = 14 * 24 * 3600
    logout_token: int = 120
    pushed_request: int = 60
    page: int = 600


@dataclass(slots=True)
class ProviderState:
    """The users, clients, keys, sessions and issued credentials."""

    issuer: str
    users: Mapping[str, DevUser]
    clients: Mapping[str, DevClient]
    keys: SigningKeys
    clock: Clock
    lifetimes: Lifetimes
    resources: Mapping[str, DevResource] = field(default_factory=dict)
    acr_values: tuple[str, ...] = ()
    dpop_nonce: str | None = None
    back_channel_transport: httpx.AsyncBaseTransport | None = None
    sessions: OPSessions = field(default_factory=OPSessions)
    record: Record = field(default_factory=Record)
    edits: Edits = field(default_factory=Edits)
    faults: Faults = field(default_factory=Faults)
    credentials: Credentials = field(init=False)
    seen_assertions: TTLCache[str, None] = field(init=False)
    seen_proofs: TTLCache[str, None] = field(init=False)
    pushed: SingleUse[dict[str, str]] = field(init=False)
    logins: SingleUse[AuthorizationRequest] = field(init=False)
    logouts: SingleUse[LogoutRequest] = field(init=False)

    def __post_init__(self) -> None:
        """Create the members that need the clock."""
        self.credentials, self.seen_assertions = Credentials(self.clock), TTLCache(self.clock)
        self.seen_proofs = TTLCache(self.clock)
        page = self.lifetimes.page
        prefix = "urn:ietf:params:oauth:request_uri:"
        self.pushed = SingleUse(self.clock, lifetime=self.lifetimes.pushed_request, prefix=prefix)
        self.logins = SingleUse(self.clock, lifetime=page)
        self.logouts = SingleUse(self.clock, lifetime=page)

    @property
    def published_issuer(self) -> str:
        """The issuer of the metadata: a template when the users belong to tenants."""
        is_shared = any(user.tenant for user in self.users.values())
        return self._of_tenant("{tenantid}") if is_shared else self.issuer

    def issuer_claims(self, user: DevUser) -> dict[str, JsonValue]:
        """`iss`, and `tid` when the user belongs to a tenant."""
        if user.tenant is None:
            return {"iss": self.issuer}
        return {"iss": self._of_tenant(user.tenant), "tid": user.tenant}

    def _of_tenant(self, tenant: str) -> str:
        return re.sub("/(common|organizations)(?=/|$)", f"/{tenant}", self.issuer)

    def url(self, path: str) -> str:
        """The absolute URL of one of the provider's paths."""
        return self.issuer + path
