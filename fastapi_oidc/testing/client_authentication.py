"""Who is calling: exactly one client authentication, by exactly the registered method (Core 9)."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote_plus

from pydantic import JsonValue

from fastapi_oidc.testing.keys import (
    HMAC_ALGORITHMS,
    PublicKey,
    is_signed_by,
    sign_with_secret,
    suits,
)
from fastapi_oidc.testing.messages import Parameters, Refusal
from fastapi_oidc.testing.registration import AuthenticationMethod, DevClient
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
        op.seen_assertions.set(jti, None, ends=expires_at)

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


ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Presented:
    """What a request offered to prove who its client is."""

    method: AuthenticationMethod
    client_id: str
    secret: str = field(default="", repr=False)
    assertion: Assertion | None = None


def authenticated_client(
    op: ProviderState, headers: Mapping[str, str], form: Parameters
) -> DevClient:
    """The client that sent the request; `invalid_client` when it is not proved (RFC 6749 5.2)."""
    presented = _presented(headers, form)
    client = op.clients.get(presented.client_id)
    if client is None:
        raise invalid_client(f"no client is registered as {presented.client_id!r}")
    if form.get("client_id", client.client_id) != client.client_id:
        raise invalid_client("client_id and the authenticated client differ")
    if presented.method != client.authentication_method:
        expected = client.authentication_method
        raise invalid_client(f"the client must use {expected}, it used {presented.method}")
    _require_proof(op, client, presented)
    return client


def invalid_client(description: str) -> Refusal:
    """The refusal of a client that is not who it says (RFC 6749 5.2)."""
    return Refusal(
        "invalid_client",
        description,
        status=HTTPStatus.UNAUTHORIZED,
        headers={"WWW-Authenticate": 'Basic realm="DevProvider"'},
    )


def _presented(headers: Mapping[str, str], form: Parameters) -> Presented:
    offered = []
    if "authorization" in headers:
        offered.append(_basic(headers["authorization"]))
    if "client_secret" in form:
        client_id = form.get("client_id", "")
        offered.append(Presented("client_secret_post", client_id, secret=form["client_secret"]))
    if "client_assertion" in form:
        offered.append(_assertion(form))
    if len(offered) > 1:
        raise Refusal("invalid_request", "more than one client authentication (RFC 6749 2.3)")
    return offered[0] if offered else Presented("none", form.get("client_id", ""))


def _basic(authorization: str) -> Presented:
    """Both halves are form-urlencoded before they are joined and encoded (RFC 6749 2.3.1)."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise invalid_client("the Authorization header is not Basic")
    try:
        halves = base64.b64decode(encoded, validate=True).decode("ascii").split(":")
        client_id, secret = (unquote_plus(half, errors="strict") for half in halves)
    except (binascii.Error, ValueError) as malformed:
        raise invalid_client("the Basic credentials are malformed") from malformed
    return Presented("client_secret_basic", client_id, secret=secret)


def _assertion(form: Parameters) -> Presented:
    if form.get("client_assertion_type") != ASSERTION_TYPE:
        raise Refusal("invalid_request", "client_assertion_type is not jwt-bearer (RFC 7523 2.2)")
    assertion = Assertion.parse(form["client_assertion"])
    method: AuthenticationMethod = (
        "client_secret_jwt" if assertion.algorithm.startswith("HS") else "private_key_jwt"
    )
    return Presented(method, assertion.subject, assertion=assertion)


def _require_proof(op: ProviderState, client: DevClient, presented: Presented) -> None:
    if presented.assertion is not None:
        presented.assertion.require_signed_by(client)
        presented.assertion.require_fresh(op)
    elif presented.method != "none":
        expected = (client.client_secret or "").encode()
        if not hmac.compare_digest(presented.secret.encode(), expected):
            raise invalid_client("the client secret is wrong")
