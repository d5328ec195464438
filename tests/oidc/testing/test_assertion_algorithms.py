"""The provider verifies what the relying party signs: two implementations that share no code."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fastapi_oidc.protocol.client_auth import (
    AssertionTimes,
    ClientAuthentication,
    client_authentication,
)
from fastapi_oidc.testing.keys import HMAC_ALGORITHMS, PrivateKey, generate_key
from tests.oidc.testing.bare_client import APP, BareClient, bare_client

LONG_SECRET = "secret" * 11
ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")


def private_pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def client_of(key: PrivateKey) -> BareClient:
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return bare_client(
        replace(
            APP,
            client_secret=None,
            token_endpoint_auth_method="private_key_jwt",
            public_key=pem,
        )
    )


def by_key(key: PrivateKey, algorithm: str) -> ClientAuthentication:
    return client_authentication(
        "private_key_jwt",
        client_id="app",
        client_secret=None,
        private_key=private_pem(key),
        algorithm=algorithm,
    )


async def status(rp: BareClient, authentication: ClientAuthentication) -> int:
    """What the token endpoint says to a code exchange authenticated this way."""
    times = AssertionTimes(int(rp.time.now), "unique")
    proof = authentication.apply({}, assertion=times, audience=rp.provider.issuer)
    answer = await rp.exchange(await rp.code(), **proof.form)
    return answer.status_code


@pytest.mark.parametrize("algorithm", [*ASYMMETRIC, "EdDSA"])
async def test_every_algorithm_of_a_private_key(algorithm: str) -> None:
    key = generate_key(algorithm)
    assert await status(client_of(key), by_key(key, algorithm)) == 200


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES512", "EdDSA"])
async def test_another_key_of_the_same_kind_is_refused(algorithm: str) -> None:
    registered, other = generate_key(algorithm), generate_key(algorithm)
    assert await status(client_of(registered), by_key(other, algorithm)) == 401


async def test_half_a_signature_is_refused() -> None:
    key = generate_key("ES256")
    rp = client_of(key)
    times = AssertionTimes(int(rp.time.now), "unique")
    proof = by_key(key, "ES256").apply({}, assertion=times, audience=rp.provider.issuer)
    halved = dict(proof.form) | {"client_assertion": proof.form["client_assertion"][:-43]}
    refused = await rp.exchange(await rp.code(), **halved)
    assert refused.json()["error"] == "invalid_client"


@pytest.mark.parametrize("algorithm", HMAC_ALGORITHMS)
async def test_every_algorithm_of_a_secret(algorithm: str) -> None:
    registered = replace(
        APP, client_secret=LONG_SECRET, token_endpoint_auth_method="client_secret_jwt"
    )
    authentication = client_authentication(
        "client_secret_jwt",
        client_id="app",
        client_secret=LONG_SECRET,
        private_key=None,
        algorithm=algorithm,
    )
    assert await status(bare_client(registered), authentication) == 200
