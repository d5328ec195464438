"""Checks proofs of possession at the token endpoint and UserInfo (RFC 9449)."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS, PROOF_WINDOW, Proof, accept_proof
from fastapi_oidc.testing.grants import Access
from fastapi_oidc.testing.messages import Refusal
from fastapi_oidc.testing.registration import DevClient
from fastapi_oidc.testing.state import ProviderState


def proven_key(op: ProviderState, client: DevClient, request: Request) -> str | None:
    """The thumbprint of the key that new tokens are bound to; None without a proof (5)."""
    if "dpop" in request.headers or client.dpop_bound_access_tokens:
        return _proof(op, request, url=op.url("/token")).thumbprint
    return None


def require_possession(op: ProviderState, request: Request, access_token: str, of: Access) -> None:
    """Refuse a bound token without a proof by its key (7.1)."""
    try:
        url = op.url("/userinfo")
        _proof(op, request, url=url, access_token=access_token, thumbprint=of.thumbprint)
    except Refusal as refused:
        refused.status = HTTPStatus.UNAUTHORIZED
        algorithms = " ".join(PROOF_ALGORITHMS)
        challenge = f'DPoP error="{refused.error}", algs="{algorithms}"'
        refused.headers["WWW-Authenticate"] = challenge
        raise


def nonce_header(op: ProviderState) -> dict[str, str]:
    """The header with the nonce for the next proof (8.2)."""
    return {} if op.dpop_nonce is None else {"DPoP-Nonce": op.dpop_nonce}


def _proof(
    op: ProviderState,
    request: Request,
    *,
    url: str,
    access_token: str | None = None,
    thumbprint: str | None = None,
) -> Proof:
    offered = request.headers.getlist("dpop")
    if len(offered) != 1:
        raise Refusal("invalid_dpop_proof", "send one DPoP header (RFC 9449 4.3)")
    try:
        proof = accept_proof(
            offered[0],
            method=request.method,
            url=url,
            now=op.clock.now(),
            access_token=access_token,
            thumbprint=thumbprint,
            nonce=op.dpop_nonce,
        )
    except ProtocolViolation as violation:
        needs_nonce = violation.code is Code.DPOP_NONCE
        error = "use_dpop_nonce" if needs_nonce else "invalid_dpop_proof"
        raise Refusal(error, violation.explanation, headers=nonce_header(op)) from violation
    if proof.jti in op.seen_proofs:
        raise Refusal("invalid_dpop_proof", "the proof was used before (RFC 9449 11.1)")
    op.seen_proofs.set(proof.jti, None, expires_at=proof.iat + PROOF_WINDOW + 1)
    return proof
