"""What a browser brought here to be done, as soon as it is understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fastapi_oidc.testing.registration import DevClient, DevUser

ResponseMode: TypeAlias = Literal["query", "form_post"]


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where answers go: only once this is known can an error be told to the client."""

    client: DevClient
    redirect_uri: str
    state: str | None
    response_mode: ResponseMode


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request that may be granted."""

    address: ReturnAddress
    scope: tuple[str, ...]
    nonce: str | None
    code_challenge: str
    prompt: frozenset[str]
    max_age: int | None
    login_hint: str | None
    id_token_hint: str | None

    @property
    def client(self) -> DevClient:
        """The client that asks."""
        return self.address.client


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """A client's wish to sign the user out, and where the browser goes afterwards."""

    client: DevClient | None
    hinted_user: DevUser | None
    return_url: str | None

    @property
    def client_id(self) -> str | None:
        """The client that asked, when it said so."""
        return self.client.client_id if self.client else None
