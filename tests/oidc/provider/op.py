"""A scripted OP in memory, and a Provider that talks to it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal
from urllib.parse import parse_qsl

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.provider.document import Registration
from fastapi_oidc.provider.network import Network
from fastapi_oidc.provider.provider import Provider

ISSUER = "https://op.test/tenant/"
NOW = 1_800_000_000
METADATA: Mapping[str, object] = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://op.test/authorize",
    "token_endpoint": "https://op.test/token",
    "jwks_uri": "https://op.test/jwks",
    "userinfo_endpoint": "https://op.test/userinfo",
    "revocation_endpoint": "https://op.test/revoke",
    "pushed_authorization_request_endpoint": "https://op.test/par",
}
TOKENS: Mapping[str, object] = {"access_token": "at", "id_token": "it", "token_type": "Bearer"}

Answer = Callable[[httpx.Request], httpx.Response]


class SigningKey:
    """An Ed25519 key of the OP."""

    def __init__(self, kid: str) -> None:
        private_key = Ed25519PrivateKey.generate()
        self._signer = Signer.of_private_key(private_key, key_id=kid)
        x = encode_base64url(private_key.public_key().public_bytes_raw())
        self.jwk: dict[str, object] = {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid}

    def sign(self, claims: Mapping[str, object], *, typ: str = "JWT") -> str:
        return self._signer.sign(claims, typ=typ)


class OP:
    """Answers each path as `answers` says and keeps every request."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answers: dict[str, Answer] = {}
        self.now = NOW
        self.answer("/tenant/.well-known/openid-configuration", METADATA)
        self.answer("/token", TOKENS)

    def answer(self, path: str, document: object, *, status: int = 200) -> None:
        self.answers[path] = lambda request: httpx.Response(status, json=document)

    def answer_text(self, path: str, text: str, media_type: str, *, status: int = 200) -> None:
        headers = {"Content-Type": media_type}
        self.answers[path] = lambda request: httpx.Response(status, text=text, headers=headers)

    def break_off(self, path: str) -> None:
        def refuse(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("refused")

        self.answers[path] = refuse

    def publish(self, keys: Iterable[SigningKey]) -> None:
        self.answer("/jwks", {"keys": [key.jwk for key in keys]})

    def asked(self, path: str) -> int:
        return sum(request.url.path == path for request in self.requests)

    def last_form(self) -> dict[str, str]:
        return dict(parse_qsl(self.requests[-1].content.decode(), strict_parsing=True))

    def respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answers[request.url.path](request)

    def provider(
        self,
        *,
        authentication: ClientAuthentication | None = None,
        algorithms: Iterable[str] = ("EdDSA",),
        assertion_audience: Literal["issuer", "token_endpoint"] = "issuer",
    ) -> Provider:
        return Provider(
            TrustedIssuer(ISSUER),
            Registration(
                authentication=authentication
                or ClientAuthentication("client_secret_basic", "console", "s" * 32),
                algorithms=frozenset(algorithms),
                assertion_audience=assertion_audience,
            ),
            clock=Clock(read=lambda: self.now),
            network=Network(httpx.MockTransport(self.respond)),
        )
