"""Client authentication: exactly one, by the registered method (Core 9)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote_plus

from fastapi_oidc.errors import OIDCError, ProtocolViolation
from fastapi_oidc.protocol.encoding import Claims, CompactJWS
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, JsonWebKeySet, verified_claims
from fastapi_oidc.testing.keys import HMAC_ALGORITHMS, public_jwk
from fastapi_oidc.testing.messages import Parameters, Refusal
from fastapi_oidc.testing.registration import AuthenticationMethod, DevClient
from fastapi_oidc.testing.state import ProviderState

LONGEST_LIFETIME = 24 * 3600


@dataclass(frozen=True, slots=True)
class Assertion:
    """A client assertion, not verified yet (RFC 7523, Core 9)."""

    jws: CompactJWS
    claims: Claims = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Assertion:
        """Parse the compact form; other texts are refused."""
        try:
            jws = CompactJWS.parse(text)
            return cls(jws, jws.claims())
        except ProtocolViolation as malformed:
            raise _refused("the assertion is not a JWT") from malformed

    @property
    def subject(self) -> str:
        """The client of the assertion."""
        return str(self.claims.get("sub", ""))

    def require_signed_by(self, client: DevClient) -> None:
        """Refuse a signature by another key than the client's secret or private key."""
        key = client.verification_key
        named = {} if self.jws.header.kid is None else {"kid": self.jws.header.kid}
        keys = JsonWebKeySet.parse({"keys": [{**public_jwk(key), **named}] if key else []})
        try:
            verified_claims(
                self.jws, keys, algorithms=set(ALGORITHMS), client_secret=client.client_secret
            )
        except OIDCError as error:
            raise _refused("the signature of the assertion is wrong") from error

    def require_fresh(self, op: ProviderState) -> None:
        """Refuse a wrong `iss`, `sub`, `aud`, `exp` or `iat`, and a used `jti`."""
        if self.claims.get("iss") != self.subject:
            raise _refused("iss and sub of the assertion differ")
        if self.claims.get("aud") not in (op.issuer, op.url("/token")):
            raise _refused("aud is neither the issuer nor the token endpoint")
        expires_at = self._require_times(op.clock.now())
        jti = self.claims.get("jti")
        if not isinstance(jti, str) or not jti or jti in op.seen_assertions:
            raise _refused("jti is missing or was used before")
        op.seen_assertions.set(jti, None, expires_at=expires_at)

    def _require_times(self, now: int) -> int:
        expires_at, issued_at = self.claims.get("exp"), self.claims.get("iat")
        if type(expires_at) is not int or not now < expires_at <= now + LONGEST_LIFETIME:
            raise _refused("exp is missing, has passed, or is more than a day ahead")
        if type(issued_at) is not int or issued_at > now + 60:
            raise _refused("iat is missing or in the future")
        return expires_at


def _refused(reason: str) -> Refusal:
    return Refusal("invalid_client", reason, status=HTTPStatus.UNAUTHORIZED)


ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Presented:
    """The client credentials in a request."""

    method: AuthenticationMethod
    client_id: str
    secret: str = field(default="", repr=False)
    assertion: Assertion | None = None


def authenticated_client(
    op: ProviderState, headers: Mapping[str, str], form: Parameters
) -> DevClient:
    """The client that sent the request; `invalid_client` without a proof (RFC 6749 5.2)."""
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
    """The refusal of a client that is not authenticated (RFC 6749 5.2)."""
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
        "client_secret_jwt" if assertion.jws.header.alg in HMAC_ALGORITHMS else "private_key_jwt"
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
