"""All that one provider knows, shared by its endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.testing.edits import Edits
from fastapi_oidc.testing.faults import Faults
from fastapi_oidc.testing.grants import Credentials, SingleUse
from fastapi_oidc.testing.keys import SigningKeys
from fastapi_oidc.testing.op_sessions import OPSessions
from fastapi_oidc.testing.record import Record
from fastapi_oidc.testing.registration import DevClient, DevUser

if TYPE_CHECKING:
    from fastapi_oidc.testing.authorization_request import AuthorizationRequest
    from fastapi_oidc.testing.end_session import LogoutRequest


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
    credentials: Credentials = field(default_factory=Credentials)
    record: Record = field(default_factory=Record)
    edits: Edits = field(default_factory=Edits)
    faults: Faults = field(default_factory=Faults)
    seen_assertions: set[str] = field(default_factory=set)
    pushed: SingleUse[dict[str, str]] = field(init=False)
    logins: SingleUse[AuthorizationRequest] = field(init=False)
    logouts: SingleUse[LogoutRequest] = field(init=False)

    def __post_init__(self) -> None:
        """Gives the one-visit tables their clock."""
        page = self.lifetimes.page
        prefix = "urn:ietf:params:oauth:request_uri:"
        self.pushed = SingleUse(self.clock, lifetime=self.lifetimes.pushed_request, prefix=prefix)
        self.logins = SingleUse(self.clock, lifetime=page)
        self.logouts = SingleUse(self.clock, lifetime=page)

    def url(self, path: str) -> str:
        """The absolute URL of one of the provider's paths."""
        return self.issuer + path
