"""What the OpenID Provider (OP) knows of this client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fastapi_oidc.protocol.client_auth import ClientAuthentication

AssertionAudience: TypeAlias = Literal["issuer", "token_endpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One client, how it authenticates, and with what the OP signs for it.

    `userinfo_algorithms` are for signed UserInfo, None for those of ID tokens.
    """

    client_id: str
    client_secret: str | None = field(repr=False)
    authentication: ClientAuthentication
    algorithms: frozenset[str]
    userinfo_algorithms: frozenset[str] | None = None
    assertion_audience: AssertionAudience = "issuer"
