"""The logout request to the OP (OpenID Connect RP-Initiated Logout 1.0)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi_oidc.protocol.urls import with_query


@dataclass(frozen=True, slots=True)
class EndSessionRequest:
    """The parameters of RP-Initiated Logout 2; `client_id` is always sent."""

    client_id: str
    id_token_hint: str | None = field(default=None, repr=False)
    post_logout_redirect_uri: str | None = None
    state: str | None = None
    logout_hint: str | None = None

    def parameters(self) -> dict[str, str]:
        """The parameters that are set, by their names in the specification."""
        named = {
            "id_token_hint": self.id_token_hint,
            "client_id": self.client_id,
            "post_logout_redirect_uri": self.post_logout_redirect_uri,
            "state": self.state,
            "logout_hint": self.logout_hint,
        }
        return {name: value for name, value in named.items() if value is not None}

    def url(self, endpoint: str) -> str:
        """The URL to which the browser is redirected; `endpoint` may already have a query (2.1)."""
        return with_query(endpoint, self.parameters())
