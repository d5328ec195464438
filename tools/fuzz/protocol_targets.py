"""What a provider and a browser send: any bytes end in a value or in the documented error."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from starlette.requests import Request

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.access_token import (
    ExpectedAccessToken,
    accept_access_token,
    accept_introspection,
    refuses,
)
from fastapi_oidc.protocol.authorization import (
    AuthorizationCode,
    AuthorizationRefused,
    pushed_request_uri,
    response_state,
)
from fastapi_oidc.protocol.claims import TrustedIssuer, accept_userinfo
from fastapi_oidc.protocol.dpop import PROOF_TYPE, PROOF_WINDOW, DPoPKey, accept_proof
from fastapi_oidc.protocol.encoding import (
    JSON,
    Claims,
    CompactJWS,
    MalformedJSON,
    encode_base64url,
    parse_json_object,
)
from fastapi_oidc.protocol.id_token import (
    Expected,
    accept_id_token,
    accept_logout_token,
    logout_token_parameter,
)
from fastapi_oidc.protocol.jose.keys import (
    ALGORITHMS,
    JsonWebKey,
    JsonWebKeySet,
    PublicKey,
    verified_claims,
)
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.protocol.refusal import refusal
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.protocol.urls import is_same_origin_path
from fastapi_oidc.provider.http import OPResponse
from fastapi_oidc.resource_server.server import require_certificate
from fastapi_oidc.web.requests import query_parameters

ISSUER: Final = "https://op.test/"
TRUSTED: Final = TrustedIssuer(ISSUER)
CLIENT_ID: Final = "client-1"
API: Final = ExpectedAccessToken(
    issuer=TRUSTED, audience="https://api.test", accepts_plain_jwt=True, roles_claim=("a", "roles")
)
AT: Final = Instant(1_800_000_000, drift=30)
ORIGIN: Final = "https://app.test"
LONGEST_SHOWN: Final = 200


def _key_set() -> JsonWebKeySet:
    """A key of each type, whose private half nobody has: no signature is right."""
    keys: list[PublicKey] = [
        rsa.generate_private_key(65537, 2048).public_key(),
        ec.generate_private_key(ec.SECP256R1()).public_key(),
        ed25519.Ed25519PrivateKey.generate().public_key(),
    ]
    rows = zip(("RS256", "ES256", "EdDSA"), keys, strict=True)
    return JsonWebKeySet(
        tuple(JsonWebKey(None, {name: ALGORITHMS[name].key(key)}) for name, key in rows)
    )


KEYS: Final = _key_set()


_PROVEN: Final = DPoPKey.new()
PROOF_SIGNER, PROOF_KEY = Signer.of_private_key(_PROVEN.key), _PROVEN.jwk


def _document(body: bytes) -> JSON:
    """What an answer with this body says; raises ProviderError."""
    return OPResponse(f"{ISSUER}token", 200, "application/json", body).document()


def _claims(payload: bytes) -> Claims | None:
    with suppress(MalformedJSON):
        return parse_json_object(payload)
    return None


def jws(data: bytes) -> None:
    """A token as it comes, and one whose header, payload and signature are the three lines."""
    as_it_comes = data.decode("utf-8", "surrogateescape")
    parts = [encode_base64url(part) for part in data.split(b"\n", 2)]
    for text in (as_it_comes, ".".join(parts)):
        with suppress(ProtocolViolation):
            token = CompactJWS.parse(text)
            verified_claims(token, KEYS, algorithms=set(ALGORITHMS), client_secret="s" * 64)
            raise AssertionError("a signature that nobody made is right")


def dpop_proof(data: bytes) -> None:
    """A proof as it comes, and the first line as the claims of one that is signed."""
    signed = PROOF_SIGNER.sign(
        _claims(data.partition(b"\n")[0]) or {}, typ=PROOF_TYPE, jwk=PROOF_KEY
    )
    for text in (data.decode("utf-8", "surrogateescape"), signed):
        with suppress(ProtocolViolation):
            proof = accept_proof(text, method="GET", url=f"{ISSUER}api", now=AT.now)
            assert text == signed, "a signature that nobody made is right"
            assert abs(proof.iat - AT.now) <= PROOF_WINDOW
            assert proof.jti


def id_token(data: bytes) -> None:
    """Claims as if their signature were verified."""
    claims = _claims(data)
    if claims is None:
        return
    expected = Expected(
        TRUSTED, CLIENT_ID, algorithm="RS256", nonce="nonce-1", access_token="a", max_age=60
    )
    with suppress(ProtocolViolation):
        assert accept_id_token(claims, expected, AT).iss == ISSUER


def logout_token(data: bytes) -> None:
    """The form that a provider posts, and claims as if their signature were verified."""
    with suppress(OIDCError):
        CompactJWS.parse(logout_token_parameter(_query(data)))
    claims = _claims(data)
    if claims is not None:
        with suppress(ProtocolViolation):
            token = accept_logout_token(None, claims, Expected(TRUSTED, CLIENT_ID), AT)
            assert token.sub or token.sid


def access_token(data: bytes) -> None:
    """Claims as if their signature were verified, and as if the provider had said them."""
    with suppress(ProtocolViolation):
        require_certificate(data.decode("latin-1"), "")
        raise AssertionError("no certificate has an empty thumbprint")
    claims = _claims(data)
    if claims is None:
        return
    for accept in (
        partial(accept_access_token, "at+jwt"),
        partial(accept_access_token, "JWT"),
        accept_introspection,
    ):
        with suppress(ProtocolViolation):
            token = accept(claims, API, AT)
            assert API.audience in token.aud
            assert token.expires_at > AT.now - AT.drift
            assert token.sub
            assert token.client_id


def discovery(data: bytes) -> None:
    """The discovery document: the client that asks an endpoint reads its URL as the check did."""
    with suppress(ProviderError):
        metadata = ProviderMetadata.parse(_document(data), issuer=TRUSTED, mutual_tls=True)
        assert metadata.issuer == ISSUER
        checked, asked = urlsplit(metadata.token_endpoint), httpx.URL(metadata.token_endpoint)
        assert checked.scheme == asked.scheme == "https"
        assert checked.hostname == asked.host


def key_set(data: bytes) -> None:
    """The provider's key set."""
    with suppress(ProviderError):
        keys = JsonWebKeySet.parse(_document(data))
        for name in ALGORITHMS:
            keys.suitable(name, None)


def token_answer(data: bytes) -> None:
    """What token endpoint, UserInfo and the endpoint for pushed requests answer."""
    answer = OPResponse(f"{ISSUER}token", 400, "application/json", data, sent=("secret",))
    assert str(answer.refused_status()).isprintable()
    with suppress(ProviderError):
        document = answer.document()
        assert refusal(document, 400, url=answer.url).error.isprintable()
        with suppress(OIDCError):
            pushed_request_uri(document)
        with suppress(OIDCError):
            accept_userinfo(document, sub="alice")
        assert TokenResponse.read(data).access_token.isprintable()


def challenge(data: bytes) -> None:
    """The WWW-Authenticate header of an API: what refuses a token names scheme and error."""
    text = data.decode("latin-1")
    if refuses([text], "invalid_token"):
        assert "invalid_token" in text
        assert "bearer" in text.lower() or "dpop" in text.lower()


def return_path(data: bytes) -> None:
    """Where a login leads back to: a browser never leaves the origin for it."""
    value = data.decode("utf-8", "surrogateescape")
    if is_same_origin_path(value):
        assert urlsplit(urljoin(f"{ORIGIN}/auth/callback", value)).netloc == "app.test"
        assert value.isascii()
        assert value.isprintable()


def callback_query(data: bytes) -> None:
    """The provider's response in the query of the callback."""
    with suppress(OIDCError):
        parameters = _query(data)
        state = response_state(parameters)
        try:
            code = AuthorizationCode.parse(
                parameters, state=state, issuer=ISSUER, issuer_promised=False
            )
            assert parameters["code"] == [code.value]
        except AuthorizationRefused as refused:
            assert str(refused).isprintable()
            assert len(refused.error_description) <= LONGEST_SHOWN


def _query(data: bytes) -> dict[str, list[str]]:
    scope = {"type": "http", "query_string": data, "headers": []}
    parameters = query_parameters(Request(scope), Code.AUTHORIZATION_MALFORMED)
    return {name: list(values) for name, values in parameters.items()}
