"""What an access token permits: the client's scopes, the user's role and authentication."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.step_up import StepUp, together
from fastapi_oidc.resource_server.token import AccessToken


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
