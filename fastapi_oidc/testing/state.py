"""All that one provider knows, shared by its endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
from pydantic import JsonValue

from fastapi_oidc.clock import Clock
from fastapi_oidc.testing.asked import AuthorizationRequest, LogoutRequest
from fastapi_oidc.testing.edits import Edits
from fastapi_oidc.testing.faults import Faults
from fastapi_oidc.testing.grants import Credentials, SingleUse
from fastapi_oidc.testing.keys import SigningKeys
from fastapi_oidc.testing.op_sessions import OPSessions
from fastapi_oidc.testing.record import Record
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.ttl_cache import TTLCache


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long what the provider issues is good for, in seconds."""

    code: int = 60
    access_token: int = 300
    id_token: int = 300
    refresh_token: int = 14 * 24 * 3600
    logout_token: int = 120
    pushed_request: int = 60
    page: int = 600


@dataclass(slots=True)
class ProviderState:
    """Users, clients, keys, sessions and everything issued."""

    issuer: str
    users: Mapping[str, DevUser]
    clients: Mapping[str, DevClient]
    keys: SigningKeys
    clock: Clock
    lifetimes: Lifetimes
    back_channel_transport: httpx.AsyncBaseTransport | None = None
    sessions: OPSessions = field(default_factory=OPSessions)
    record: Record = field(default_factory=Record)
    edits: Edits = field(default_factory=Edits)
    faults: Faults = field(default_factory=Faults)
    credentials: Credentials = field(init=False)
    seen_assertions: TTLCache[str, None] = field(init=False)
    pushed: SingleUse[dict[str, str]] = field(init=False)
    logins: SingleUse[AuthorizationRequest] = field(init=False)
    logouts: SingleUse[LogoutRequest] = field(init=False)

    def __post_init__(self) -> None:
        """Gives what ends its clock."""
        self.credentials, self.seen_assertions = Credentials(self.clock), TTLCache(self.clock)
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
