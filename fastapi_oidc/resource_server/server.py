"""From what a request presents to an access token of its rightful sender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.access_token import (
    AccessClaims,
    ExpectedAccessToken,
    accept_access_token,
)
from fastapi_oidc.protocol.dpop import accept_proof
from fastapi_oidc.protocol.introspection import accept_introspection
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.provider import Provider, Undecided
from fastapi_oidc.resource_server.introspections import Introspections
from fastapi_oidc.resource_server.possession import Proofs, require_certificate
from fastapi_oidc.resource_server.token import AccessToken

Scheme: TypeAlias = Literal["Bearer", "DPoP"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedToken:
    """A token as a request brings it; nothing of it is checked.

    `url` is that of the request, `proofs` are its `DPoP` headers, and `certificate` is what a
    trusted front server says of the client's certificate.
    """

    scheme: Scheme
    value: str = field(repr=False)
    method: str
    url: str
    proofs: Sequence[str] = field(default=(), repr=False)
    certificate: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceServer:
    """One API as OAuth sees it (RFC 6749 1.1).

    `algorithms` sign its JWTs; with `introspections` the provider is asked about every token.
    """

    expected: ExpectedAccessToken
    algorithms: frozenset[str]
    provider: Provider
    clock: Clock
    proofs: Proofs
    introspections: Introspections | None = None

    async def accept(self, presented: PresentedToken) -> AccessToken:
        """The token, after every rule.

        Raises ProtocolViolation when it is refused, ProviderError or SessionError when that could
        not be decided.
        """
        claims = await self._claims(presented.value)
        await self._require_possession(presented, claims)
        return AccessToken.of(claims, presented.value)

    async def _claims(self, value: str) -> AccessClaims:
        if self.introspections is not None:
            response = await self.introspections.of(value)
            return accept_introspection(response, self.expected, self.clock.instant())
        try:
            verified = await self.provider.verify(
                value, sender="anybody", algorithms=self.algorithms, setting="algorithms"
            )
        except Undecided as undecided:
            # Whatever key has signed it, a token that breaks another rule is refused.
            unverified = CompactJWS.parse(value)
            self._accepted(unverified.typ, unverified.claims())
            if not undecided.is_by_new_keys:
                raise
            # The provider's keys were read just now: no key of it has signed this.
            raise ProtocolViolation(undecided.code, undecided.explanation) from None
        return self._accepted(verified.header_typ, verified.claims)

    def _accepted(self, header_typ: str | None, claims: Claims) -> AccessClaims:
        return accept_access_token(header_typ, claims, self.expected, self.clock.instant())

    async def _require_possession(self, presented: PresentedToken, claims: AccessClaims) -> None:
        """A bound token is of use to nobody who has only the token (RFC 9449 7.1, RFC 8705 3)."""
        confirmation = claims.confirmation
        is_bound = confirmation.jkt is not None
        if is_bound != (presented.scheme == "DPoP"):
            says = "is bound to a key (DPoP)" if is_bound else "is bound to no key"
            explanation = f"the token {says}, and the request has the scheme {presented.scheme}"
            raise ProtocolViolation(Code.ACCESS_TOKEN_BINDING, explanation)
        if confirmation.x5t_s256 is not None:
            require_certificate(presented.certificate, confirmation.x5t_s256)
        if confirmation.jkt is not None:
            await self._require_proof(presented, confirmation.jkt)

    async def _require_proof(self, presented: PresentedToken, thumbprint: str) -> None:
        """One proof, for this request and this token, by the token's key (RFC 9449 4.3, 7.1)."""
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
        await self.proofs.require_first_use(proof)
