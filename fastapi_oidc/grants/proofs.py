"""The headers of requests with an access token (RFC 6750 2.1, RFC 9449 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import httpx

from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.issued_token import IssuedToken
from fastapi_oidc.provider import Proofs


def attach(proofs: Proofs, request: httpx.Request, token: IssuedToken, server: str) -> None:
    """Add `token`, and a proof for this request alone, to `request` to the origin `server`."""
    request.headers["Authorization"] = f"{token.token_type} {token.value}"
    if token.dpop_key is not None:
        key, url = DPoPKey.from_text(token.dpop_key), str(request.url)
        headers = proofs.headers(key, request.method, url, access_token=token.value, server=server)
        # The class without a proof, also when the request is sent again.
        kind = getattr(request.headers, "plain", type(request.headers))
        request.headers = _with_proof(kind)(request.headers, headers["DPoP"])


@cache
def _with_proof(kind: type[httpx.Headers]) -> Callable[[httpx.Headers, str], httpx.Headers]:
    """Headers with a proof that is sent and not copied. `kind` is that of httpx or of httpx2.

    A client that follows a redirect copies the headers. Without the proof, a request to another
    origin has nothing of the token, and one within the origin gets a proof of its own.
    """

    class WithProof(kind):  # type: ignore[misc, valid-type]
        plain = kind

        def __init__(self, headers: httpx.Headers, proof: str) -> None:
            super().__init__(headers)
            self._proof = proof

        @property
        def raw(self) -> list[tuple[bytes, bytes]]:
            """The headers as they are sent."""
            return [*super().raw, (b"DPoP", self._proof.encode())]

        def __getitem__(self, key: str) -> str:
            return self._proof if key.lower() == "dpop" else super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            return str(key).lower() == "dpop" or super().__contains__(key)

    return WithProof
