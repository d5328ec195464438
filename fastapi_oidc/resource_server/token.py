"""The access token of a caller: what it permits, and who may send it."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Final, Generic
from urllib.parse import unquote

from fastapi_oidc.clock import Clock, Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.access_token import AccessClaims, StepUp, together
from fastapi_oidc.protocol.dpop import PROOF_WINDOW, Proof
from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.session.model import Identity, NeverADependency, OIDCSession
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
            explanation = f"the token lacks the role {self.role}"
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
        step_up = self.step_up and (together(step_ups) or self.step_up)
        return Permission(tuple(scopes), self.role, step_up)


@dataclass(frozen=True, slots=True)
class AccessToken(AccessClaims, NeverADependency):
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

    @classmethod
    def of(cls, claims: AccessClaims, value: str) -> AccessToken:
        """The token `value` with its accepted `claims`."""
        accepted = {each.name: getattr(claims, each.name) for each in fields(claims)}
        return cls(**accepted, value=value)


@dataclass(frozen=True)
class Caller(NeverADependency, Generic[Identity]):
    """The caller of an endpoint: exactly one of `session` and `access_token` is set."""

    identity: Identity
    session: OIDCSession[Identity] | None = None
    access_token: AccessToken | None = None


_ARMOUR: Final = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")


class Proofs:
    """Accepts each DPoP proof once (RFC 9449 11.1) across the processes that share `store`.

    `name`, the instance's, is in front of every key. The store must not evict a proof.
    """

    def __init__(self, store: Store, name: str, clock: Clock) -> None:
        self._store, self._name, self._clock = store, name, clock

    async def require_first_use(self, proof: Proof) -> None:
        """Raises ProtocolViolation (dpop.replayed), or SessionError when the store is down."""
        name = hashlib.sha256(f"{proof.thumbprint} {proof.jti}".encode()).hexdigest()
        # A proof is accepted from one window before its time to one window after it, and the store
        # deletes by a clock of its own.
        seconds = 2 * PROOF_WINDOW + 1 + self._clock.drift
        mine = Cell(secrets.token_bytes(9), self._clock.now() + seconds)
        key = f"{self._name}:dpop:{name}"
        taking = self._store.move(key, lambda value, _: None if value else mine, known=b"")
        if (await ask_store(taking)).value != mine.value:
            raise ProtocolViolation(Code.DPOP_REPLAYED, "this proof was used before")


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
    text = unquote(header)
    for line in _ARMOUR:
        text = text.replace(line, "")
    try:
        return b64decode("".join(text.strip().strip(":").split()), validate=True)
    except ValueError:
        raise _refused("the header has no certificate") from None


def _refused(explanation: str) -> ProtocolViolation:
    return ProtocolViolation(Code.ACCESS_TOKEN_CERTIFICATE, explanation)
