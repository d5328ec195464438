"""How strongly a user must authenticate: `acr_values`, and `acr` in the `claims` parameter."""

from __future__ import annotations

import json

from pydantic import JsonValue

from fastapi_oidc.testing.messages import Parameters, Refusal
from fastapi_oidc.testing.state import ProviderState


def requested_contexts(op: ProviderState, parameters: Parameters) -> tuple[str, ...]:
    """The `acr` values that the sign-in may have, in the client's order; empty for any.

    Unknown values are ignored, unless the claim is essential and all its values are unknown (Unmet
    Authentication Requirements 1.0).
    """
    claim = _acr_claim(parameters)
    named = _texts(claim.get("values")) or _texts([claim.get("value")])
    wished = named or tuple(parameters.get("acr_values", "").split())
    known = tuple(value for value in wished if value in op.acr_values)
    if claim.get("essential") is True and wished and not known:
        raise Refusal(
            "unmet_authentication_requirements", f"no user can reach {' or '.join(wished)}"
        )
    return known


def _acr_claim(parameters: Parameters) -> dict[str, JsonValue]:
    """The member `acr` of `id_token` in the `claims` parameter (Core 5.5, 5.5.1.1)."""
    try:
        claims = json.loads(parameters.get("claims", "{}"))
        claim = claims.get("id_token", {}).get("acr") or {}
    except (ValueError, AttributeError) as malformed:
        raise Refusal("invalid_request", "claims is not what Core 5.5 describes") from malformed
    return claim if isinstance(claim, dict) else {}


def _texts(values: JsonValue) -> tuple[str, ...]:
    found = values if isinstance(values, list) else []
    return tuple(value for value in found if isinstance(value, str))
