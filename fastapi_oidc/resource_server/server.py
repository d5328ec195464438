"""An API: which access tokens it accepts, what they permit, and who may send them."""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, Generic
from urllib.parse import unquote

from fastapi_oidc.clock import Clock, Instant, TTLCache
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import (
    Code,
    ProtocolViolation,
    ProviderError,
    misconfigured,
    refused_signature,
)
from fastapi_oidc.protocol import access_token
from fastapi_oidc.protocol.access_token import AccessClaims, ExpectedAccessToken, StepUp
from fastapi_oidc.protocol.dpop import PROOF_WINDOW, Proof, Scheme, accept_proof
from fastapi_oidc.protocol.encoding import Claims, CompactJWS, encode_base64url
from fastapi_oidc.protocol.jose.keys import Unverified
from fastapi_oidc.provider.provider import Provider
from fastapi_oidc.session.model import Identity, NeverFromARequest, OIDCSession
from fastapi_oidc.session.store import Cell, Store, ask_store


@dataclass(frozen=True, slots=True)
class Permission:
    """What an endpoint requires of a token: each of `scopes`, the `role`, and `step_up`."""

    scopes: tuple[str, ...] = ()
    role: str | None = None
    step_up: StepUp | None = None

    def lack(self, token: AccessToken, at: Instant) -> ProtocolViolation | None:
        """What `token` lacks at this time (RFC 6750 3.1, RFC 9470 3); None if it suffices."""
        if missing := [scope for scope in self.scopes if scope not in token.scope]:
            explanation = f"the token lacks the scope {' '.join(missing)}"
            client = token.client_id
            return ProtocolViolation(Code.ACCESS_TOKEN_SCOPE, explanation, client=client)
        if self.role is not None and self.role not in token.roles:
            has = "" if token.roles else ", and has none where roles_claim is: a path is a tuple"
            explanation = f"the token lacks the role {self.role}{has}"
            return ProtocolViolation(Code.ACCESS_TOKEN_ROLE, explanation)
        step_up = self.step_up
        if step_up is not None and not step_up.is_met(token.auth_time, token.acr, at):
            explanation = f"the endpoint requires {step_up.parameters()}"
            return ProtocolViolation(Code.ACCESS_TOKEN_STEP_UP_REQUIRED, explanation)
        return None

    def joined(self, others: Iterable[Permission]) -> Permission:
        """With the scopes and the step-up of the endpoint's other guards.

        A client that asks for those of one guard alone would lose what another one requires.
        """
        each = (self, *others)
        scopes = dict.fromkeys(scope for permission in each for scope in permission.scopes)
        step_ups = [needed.step_up for needed in each if needed.step_up is not None]
        step_up = self.step_up and (access_token.together(step_ups) or self.step_up)
        return Permission(tuple(scopes), self.role, step_up)


@dataclass(frozen=True, slots=True)
class AccessToken(AccessClaims, NeverFromARequest):
    """An access token that was accepted. Only `ResourceServer` makes instances.

    `sub` is the user or, when a client acts for itself, usually the client. `expires_at` is in
    seconds since the epoch. `claims` are the claims of the JWT or the provider's introspection
    response, and `value` is the token itself, for a token exchange.
    """

    value: str = field(repr=False)

    @property
    def auth_time(self) -> int | None:
        """The second in which the user authenticated (RFC 9068 2.2.1), None if it is not named."""
        value = self.claims.get("auth_time")
        return value if type(value) is int else None

    @property
    def acr(self) -> str | None:
        """The class of the user's authentication (RFC 9068 2.2.1), None if it is not named."""
        value = self.claims.get("acr")
        return value if isinstance(value, str) else None


AccessToken.__signature__ = refused_signature(  # type: ignore[attr-defined]
    "write as a parameter token: Annotated[AccessToken, Depends(api.require(...))]"
)


@dataclass(frozen=True)
class Caller(Generic[Identity]):
    """The caller of an endpoint: exactly one of `session` and `access_token` is set."""

    identity: Identity
    session: OIDCSession[Identity] | None = None
    access_token: AccessToken | None = None


_ARMOUR: Final = re.compile(r"-----(?:BEGIN|END) CERTIFICATE-----|[\s:]")


def require_certificate(header: str | None, thumbprint: str) -> None:
    """Require the certificate to which the token is bound (RFC 8705 3).

    `header` is the client's certificate as the front server sends it: base64 between colons (RFC
    9440), or PEM, which may be percent-encoded. Raises ProtocolViolation
    (access_token.certificate).
    """
    if header is None:
        raise _refused("the token is bound to a certificate, and the request has none")
    if encode_base64url(hashlib.sha256(_der(header)).digest()) != thumbprint:
        raise _refused("the token is bound to another certificate")


def _der(header: str) -> bytes:
    try:
        return b64decode(_ARMOUR.sub("", unquote(header)), validate=True)
    except ValueError:
        raise _refused("the header has no certificate") from None


def _refused(explanation: str) -> ProtocolViolation:
    return ProtocolViolation(Code.ACCESS_TOKEN_CERTIFICATE, explanation)


MAX_TOKENS: Final = 10_000
"""Maximum number of cached responses; beyond it, the one that expires first is evicted."""


class Introspections:
    """Introspects tokens at the provider: one request at a time for each token.

    Responses for active tokens are cached for `lifetime` seconds, and never used after their `exp`,
    so invented tokens evict none. The cache contains digests of the tokens, not the tokens.
    """

    def __init__(self, provider: Provider, clock: Clock, lifetime: int) -> None:
        self._provider, self._clock, self._lifetime = provider, clock, lifetime
        self._active: TTLCache[bytes, Claims] = TTLCache(clock, max_entries=MAX_TOKENS)
        self._requests: SingleFlight[bytes, Claims] = SingleFlight()

    async def of(self, token: str) -> Claims:
        """The provider's response for `token`, unchecked; raises ProviderError.

        Raises ConfigurationError when the provider has no such endpoint.
        """
        key = hashlib.sha256(token.encode()).digest()
        known = self._active.get(key)
        return known or await self._requests.run(key, lambda: self._ask(key, token))

    async def require_endpoint(self) -> None:
        """Raise ConfigurationError when the provider has no introspection endpoint."""
        if (await self._provider.metadata()).introspection_endpoint is None:
            raise misconfigured(
                "introspect: the provider's metadata has no introspection_endpoint, so the API "
                "can accept no opaque token"
            )

    async def _ask(self, key: bytes, token: str) -> Claims:
        # The time before the request: the response may be older than its arrival.
        ends = self._clock.now() + self._lifetime
        await self.require_endpoint()
        response = await self._provider.introspect(token)
        exp = response.get("exp")
        if access_token.is_active(response) and isinstance(exp, int | float):
            self._active.set(key, response, expires_at=min(ends, int(exp)))
        return response


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedToken:
    """An unchecked access token from a request.

    `url` is the request's URL, `proofs` are its `DPoP` headers, and `certificate` is the header of
    a trusted front server with the client's certificate.
    """

    scheme: Scheme
    value: str = field(repr=False)
    method: str
    url: str
    proofs: Sequence[str] = field(default=(), repr=False)
    certificate: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """An issuer whose tokens are accepted, and what they must match.

    `algorithms` are those of its JWTs.
    """

    expected: ExpectedAccessToken
    provider: Provider
    algorithms: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceServer:
    """One API as OAuth sees it (RFC 6749 1.1).

    `issuers` begin with the application's own provider. With `introspections`, opaque tokens are
    introspected there; with `introspects_jwts`, every token is. With `dpop_required`, bearer tokens
    are refused. `proofs` has the DPoP proofs that were used, with `name`, the instance's, in front
    of every key, and must not evict one.
    """

    issuers: Sequence[TokenIssuer]
    clock: Clock
    proofs: Store
    name: str
    introspections: Introspections | None = None
    introspects_jwts: bool = False
    dpop_required: bool = False

    async def accept(self, presented: PresentedToken) -> AccessToken:
        """The token after all checks.

        Raises ProtocolViolation when the token is refused, ProviderError or SessionError when it
        cannot be checked.
        """
        claims = await self._claims(presented.value)
        await self._require_possession(presented, claims)
        accepted = {each.name: getattr(claims, each.name) for each in fields(claims)}
        return AccessToken(**accepted, value=presented.value)

    async def _claims(self, value: str) -> AccessClaims:
        if self.introspections is not None and (self.introspects_jwts or not _is_jwt(value)):
            response = await self.introspections.of(value)
            expected, at = self.issuers[0].expected, self.clock.instant()
            return access_token.accept_introspection(response, expected, at)
        if "." not in value:
            explanation = (
                "an opaque token, not a JWT: let the client request a token for this audience, "
                'or ask the provider about opaque tokens by oidc.api(introspect="opaque")'
            )
            raise ProtocolViolation(Code.JWS_MALFORMED, explanation)
        unverified = CompactJWS.parse(value)
        issuer = self._issuer_of(unverified)
        try:
            verified = await issuer.provider.verify(
                value, sender="anybody", algorithms=issuer.algorithms, setting="algorithms"
            )
        except (ProviderError, Unverified) as error:
            if error.code is not Code.JWS_SIGNATURE:
                # A token that breaks another rule is refused for it, whichever key has signed it.
                self._accepted(unverified.header.typ, unverified.claims(), issuer)
            raise
        return self._accepted(verified.header_typ, verified.claims, issuer)

    def _issuer_of(self, unverified: CompactJWS) -> TokenIssuer:
        """The issuer whose keys must verify the token; its name is checked afterwards too."""
        iss = unverified.claims().get("iss")
        named = (each for each in self.issuers if each.expected.issuer.has(iss))
        return next(named, self.issuers[0])

    def _accepted(
        self, header_typ: str | None, claims: Claims, issuer: TokenIssuer
    ) -> AccessClaims:
        return access_token.accept_access_token(
            header_typ, claims, issuer.expected, self.clock.instant()
        )

    async def _require_possession(self, presented: PresentedToken, claims: AccessClaims) -> None:
        """Require the key or certificate of a bound token (RFC 9449 7.1, RFC 8705 3)."""
        confirmation = claims.confirmation
        is_bound = confirmation.jkt is not None
        if self.dpop_required and not is_bound:
            explanation = "the token is bound to no key, and the API has dpop_required"
            raise ProtocolViolation(Code.ACCESS_TOKEN_BINDING, explanation)
        if is_bound != (presented.scheme == "DPoP"):
            says = "is bound to a key (DPoP)" if is_bound else "is bound to no key"
            explanation = f"the token {says}, and the request has the scheme {presented.scheme}"
            raise ProtocolViolation(Code.ACCESS_TOKEN_BINDING, explanation)
        if confirmation.x5t_s256 is not None:
            require_certificate(presented.certificate, confirmation.x5t_s256)
        if confirmation.jkt is not None:
            await self._require_proof(presented, confirmation.jkt)

    async def _require_proof(self, presented: PresentedToken, thumbprint: str) -> None:
        """Require one proof for this request and token by the token's key (RFC 9449 4.3, 7.1)."""
        if len(presented.proofs) != 1:
            explanation = f"{len(presented.proofs)} DPoP headers in place of one"
            raise ProtocolViolation(Code.DPOP_MALFORMED, explanation)
        proof = accept_proof(
            presented.proofs[0],
            method=presented.method,
            url=presented.url,
            now=self.clock.now(),
            access_token=presented.value,
            thumbprint=thumbprint,
        )
        await self._require_first_use(proof)

    async def _require_first_use(self, proof: Proof) -> None:
        """Accept each proof once (RFC 9449 11.1) across the processes that share the store.

        Raises ProtocolViolation (dpop.replayed), or SessionError when the store is down.
        """
        name = hashlib.sha256(f"{proof.thumbprint} {proof.jti}".encode()).hexdigest()
        # A proof is accepted from one window before its time to one window after it, and the store
        # deletes by a clock of its own.
        seconds = 2 * PROOF_WINDOW + 1 + self.clock.drift
        mine = Cell(secrets.token_bytes(9), self.clock.now() + seconds)
        key = f"{self.name}:dpop:{name}"
        taking = self.proofs.move(key, lambda value, _: None if value else mine, known=b"")
        if (await ask_store(taking)).value != mine.value:
            raise ProtocolViolation(Code.DPOP_REPLAYED, "this proof was used before")


def _is_jwt(value: str) -> bool:
    """Whether `value` has the form of a JWT with a signature (RFC 7515 3.1)."""
    try:
        CompactJWS.parse(value)
    except ProtocolViolation:
        return False
    return True
