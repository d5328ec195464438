"""What the suite demands of every request of a Relying Party, whatever the module."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

import httpx
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from tests.oidc.protocol.jose.keypairs import base64url, hs, rsa_key

Form = Mapping[str, str]

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class Registration:
    """The client as it is registered at the suite."""

    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str
    post_logout_redirect_uri: str
    backchannel_logout_uri: str
    token_endpoint_auth_method: str = "client_secret_basic"
    id_token_signed_response_alg: str = "RS256"
    token_endpoint_auth_signing_alg: str = "RS256"


def authorization_faults(query: Form, client: Registration) -> Iterator[str]:
    """OpenID Connect Core 3.1.2.1, RFC 7636 4.3."""
    expected = {
        "client_id": client.client_id,
        "response_type": "code",
        "redirect_uri": client.redirect_uri,
        "code_challenge_method": "S256",
    }
    for name, value in expected.items():
        if query.get(name) != value:
            yield f"{name} is {query.get(name)!r}"
    if "openid" not in query.get("scope", "").split():
        yield "scope has no openid"
    for name in ("state", "nonce", "code_challenge"):
        if len(query.get(name, "")) < 22:
            yield f"{name} is missing or can be guessed"
    if "request" in query or "request_uri" in query:
        yield "a request object that was not registered"


def code_faults(form: Form, authorization: Form) -> Iterator[str]:
    """OpenID Connect Core 3.1.3.1, RFC 7636 4.6."""
    if form.get("redirect_uri") != authorization["redirect_uri"]:
        yield "redirect_uri differs from that of the authorization request"
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    if base64url(digest) != authorization["code_challenge"]:
        yield "code_verifier does not belong to code_challenge"


def bearer_faults(request: httpx.Request) -> Iterator[str]:
    """RFC 6750 2: one access token, in the header."""
    if not request.headers.get("authorization", "").startswith("Bearer "):
        yield "no access token in the Authorization header"
    if b"access_token" in request.url.query or b"access_token" in request.content:
        yield "the access token is elsewhere too"


@dataclass(slots=True)
class ClientCheck:
    """Authentication by exactly the registered method (Core 9); remembers each `jti`."""

    client: Registration
    audiences: frozenset[str]
    used: set[str] = field(default_factory=set)

    def faults(self, request: httpx.Request, form: Form, now: float) -> Iterator[str]:
        """What is wrong with the credentials of a request."""
        method = self.client.token_endpoint_auth_method
        if (method == "client_secret_basic") != ("authorization" in request.headers):
            yield "the Authorization header is not as registered"
        if (method == "client_secret_post") != ("client_secret" in form):
            yield "client_secret in the form is not as registered"
        if method.endswith("_jwt") != ("client_assertion" in form):
            yield "client_assertion is not as registered"
        yield from self._credential_faults(method, request, form, now)

    def _credential_faults(
        self, method: str, request: httpx.Request, form: Form, now: float
    ) -> Iterator[str]:
        match method:
            case "client_secret_basic":
                if basic_credentials(request) != [self.client.client_id, self.client.client_secret]:
                    yield "Basic credentials are wrong"
            case "client_secret_post":
                if form.get("client_secret") != self.client.client_secret:
                    yield "client_secret is wrong"
            case "none":
                if form.get("client_id") != self.client.client_id:
                    yield "client_id is wrong"
            case _:
                yield from self._assertion_faults(method, form, now)

    def _assertion_faults(self, method: str, form: Form, now: float) -> Iterator[str]:
        """RFC 7523 3, Core 9."""
        if form.get("client_assertion_type") != ASSERTION_TYPE:
            yield "client_assertion_type is wrong"
        token = form.get("client_assertion", "..")
        require_assertion_signature(token, method, self.client)
        claims = json.loads(decoded(token.split(".")[1]))
        if (claims["iss"], claims["sub"]) != (self.client.client_id, self.client.client_id):
            yield "iss or sub of the assertion is not the client"
        if claims["aud"] not in self.audiences:
            yield "aud of the assertion is not the provider"
        if not now < claims["exp"] < now + DAY or "iat" not in claims:
            yield "times of the assertion are wrong"
        if claims["jti"] in self.used:
            yield "jti of the assertion was used before"
        self.used.add(claims["jti"])


def basic_credentials(request: httpx.Request) -> list[str]:
    """RFC 6749 2.3.1: two parts, each form-urlencoded."""
    _, _, credentials = request.headers.get("authorization", "").partition(" ")
    return [unquote_plus(part) for part in b64decode(credentials).decode().split(":")]


def require_assertion_signature(token: str, method: str, client: Registration) -> None:
    """Raises when the signature is not the client's, or not of the registered algorithm."""
    signing_input, _, signature = token.rpartition(".")
    if method == "client_secret_jwt":
        assert hs(client.client_secret)(signing_input.encode()) == decoded(signature)
        return
    algorithm = client.token_endpoint_auth_signing_alg
    assert json.loads(decoded(signing_input.split(".")[0]))["alg"] == algorithm
    padding = {"RS256": PKCS1v15(), "PS256": PSS(MGF1(SHA256()), SHA256.digest_size)}[algorithm]
    key = rsa_key("client").public_key()
    key.verify(decoded(signature), signing_input.encode(), padding, SHA256())


def decoded(segment: str) -> bytes:
    """base64url without padding."""
    return urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
