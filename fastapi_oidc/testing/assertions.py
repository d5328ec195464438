"""Client assertions: the JWT of `client_secret_jwt` and `private_key_jwt` (RFC 7523, Core 9)."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, field
from http import HTTPStatus

from pydantic import JsonValue

from fastapi_oidc.testing.messages import Refusal
from fastapi_oidc.testing.registration import DevClient
from fastapi_oidc.testing.signatures import (
    HMAC_ALGORITHMS,
    PublicKey,
    is_signed_by,
    sign_with_secret,
    suits,
)
from fastapi_oidc.testing.state import ProviderState

LONGEST_LIFETIME = 24 * 3600


@dataclass(frozen=True, slots=True)
class Assertion:
    """A client's signed statement about itself, not yet verified."""

    algorithm: str
    claims: dict[str, JsonValue] = field(repr=False)
    message: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Assertion:
        """Reads the compact form; anything else is refused."""
        message, _, signature = text.rpartition(".")
        header, _, claims = message.partition(".")
        try:
            algorithm = _members(header)["alg"]
            if not isinstance(algorithm, str):
                raise TypeError
            return cls(algorithm, _members(claims), message.encode(), _octets(signature))
        except (ValueError, KeyError, TypeError) as malformed:
            raise _refused("the assertion is no JWT") from malformed

    @property
    def subject(self) -> str:
        """The client the assertion speaks for."""
        return str(self.claims.get("sub", ""))

    def require_signed_by(self, client: DevClient) -> None:
        """Refuses a signature that is not made with the client's secret or private key."""
        if self.algorithm in HMAC_ALGORITHMS:
            expected = sign_with_secret(self.algorithm, client.client_secret or "", self.message)
            is_genuine = hmac.compare_digest(expected, self.signature)
        else:
            is_genuine = self._is_signed_by(client.verification_key)
        if not is_genuine:
            raise _refused("the signature of the assertion is wrong")

    def require_fresh(self, op: ProviderState) -> None:
        """Refuses wrong `iss`, `sub`, `aud`, `exp` and `iat`, and a `jti` seen before."""
        if self.claims.get("iss") != self.subject:
            raise _refused("iss and sub of the assertion differ")
        if self.claims.get("aud") not in (op.issuer, op.url("/token")):
            raise _refused("aud is neither the issuer nor the token endpoint")
        expires_at = self._require_times(op.clock.now())
        jti = self.claims.get("jti")
        if not isinstance(jti, str) or not jti or jti in op.seen_assertions:
            raise _refused("jti is missing or was used before")
        op.seen_assertions.set(jti, None, expires_at=expires_at)

    def _is_signed_by(self, key: PublicKey | None) -> bool:
        if key is None or not suits(self.algorithm, key):
            return False
        return is_signed_by(key, self.algorithm, self.signature, self.message)

    def _require_times(self, now: int) -> int:
        expires_at, issued_at = self.claims.get("exp"), self.claims.get("iat")
        if type(expires_at) is not int or not now < expires_at <= now + LONGEST_LIFETIME:
            raise _refused("exp is missing, over, or more than a day ahead")
        if type(issued_at) is not int or issued_at > now + 60:
            raise _refused("iat is missing or in the future")
        return expires_at


def _members(segment: str) -> dict[str, JsonValue]:
    members = json.loads(_octets(segment))
    if not isinstance(members, dict):
        raise TypeError
    return members


def _octets(segment: str) -> bytes:
    if "=" in segment:
        raise ValueError
    return base64.b64decode(segment + "=" * (-len(segment) % 4), altchars=b"-_", validate=True)


def _refused(reason: str) -> Refusal:
    return Refusal("invalid_client", reason, status=HTTPStatus.UNAUTHORIZED)
