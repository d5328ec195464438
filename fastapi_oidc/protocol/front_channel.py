"""The logout request that a provider's page makes in a frame (Front-Channel Logout 1.0)."""

from __future__ import annotations

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.protocol.tenants import Tenants

MAX_SID_LENGTH = 255


def front_channel_session(
    parameters: Parameters, issuer: str, *, tenants: Tenants | None = None
) -> tuple[str, str]:
    """The `iss` and `sid` whose sessions are to end; both are required (2).

    Raises ProtocolViolation (logout_request.malformed, logout_request.issuer).
    """
    iss, sid = (_single(parameters, name) for name in ("iss", "sid"))
    is_ours = iss == issuer if tenants is None else tenants.has_issuer(iss)
    if not is_ours:
        explanation = f"iss is {shown(iss)}, the configured issuer {shown(issuer)}"
        raise ProtocolViolation(Code.LOGOUT_REQUEST_ISSUER, explanation)
    if len(sid) > MAX_SID_LENGTH:
        raise ProtocolViolation(Code.LOGOUT_REQUEST_MALFORMED, "sid is too long")
    return iss, sid


def _single(parameters: Parameters, name: str) -> str:
    values = parameters.get(name, ())
    if len(values) != 1 or not values[0]:
        raise ProtocolViolation(Code.LOGOUT_REQUEST_MALFORMED, f"{name} is missing or repeated")
    return values[0]
