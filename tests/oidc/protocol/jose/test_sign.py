import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.encoding import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet, verified_claims
from fastapi_oidc.protocol.jose.sign import Signer
from tests.oidc.protocol.examples import refused
from tests.oidc.protocol.jose.keypairs import (
    PrivateKey,
    ec_jwk,
    ec_key,
    ed25519_jwk,
    ed25519_key,
    number,
    private_pem,
    public_jwk,
    public_pem,
    rsa_jwk,
    rsa_key,
)

SECRET = "s" * 64
CLAIMS = {"iss": "client-1", "aud": "https://op.test/", "exp": 1}
KEYS: dict[str, PrivateKey] = {
    "RS256": rsa_key(),
    "PS256": rsa_key(),
    "ES256": ec_key("P-256"),
    "ES384": ec_key("P-384"),
    "ES512": ec_key("P-521"),
    "EdDSA": ed25519_key(),
}
KINDS = ("ES256", "ES384", "ES512", "EdDSA", "RS256")


def private_jwk(key: PrivateKey) -> dict[str, object]:
    """The private JWK (RFC 7518 6, RFC 8037 2)."""
    jwk: dict[str, object] = dict(public_jwk(key, kid="key-1"))
    if key is ed25519_key():
        return jwk | {"d": number(int.from_bytes(ed25519_key().private_bytes_raw()), 32)}
    if key is rsa_key():
        secret = rsa_key().private_numbers()
        return jwk | {"d": number(secret.d)}
    curve = str(jwk["crv"])
    return jwk | {"d": number(ec_key(curve).private_numbers().private_value)}


@pytest.mark.parametrize("algorithm", KINDS)
def test_every_form_of_a_key_signs_alike_with_the_algorithm_of_its_kind(algorithm: str) -> None:
    key = KEYS[algorithm]
    keys = JsonWebKeySet.parse({"keys": [public_jwk(key)]})
    for form in (key, private_pem(key), private_jwk(key)):
        signer = Signer.of_private_key(form, key_id=None)
        assert signer.algorithm.name == algorithm
        jws = CompactJWS.parse(signer.sign(CLAIMS))
        unnamed = CompactJWS(algorithm, None, None, jws.payload, jws.signature, jws.signing_input)
        assert verified_claims(unnamed, keys, algorithms={algorithm}, client_secret=None)


def test_a_jwk_names_its_algorithm_and_itself() -> None:
    jwk = private_jwk(rsa_key()) | {"alg": "PS384", "kid": "key-2"}
    signer, other = Signer.of_private_key(jwk), Signer.of_private_key(jwk, algorithm="RS256")
    assert (signer.algorithm.name, signer.key_id) == ("PS384", "key-2")
    assert (other.algorithm.name, other.key_id) == ("RS256", "key-2")
    assert Signer.of_private_key(jwk, key_id="key-3").key_id == "key-3"
    no_texts = Signer.of_private_key(jwk | {"alg": 256, "kid": 2})
    assert (no_texts.algorithm.name, no_texts.key_id) == ("RS256", None)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "secret",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        private_pem(rsa_key(), BestAvailableEncryption(b"password")),
        public_pem(rsa_key()),
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "OKP", "crv": "Ed448", "d": "AAAA"},
        {"kty": "OKP", "crv": "Ed25519"},
        {"kty": "RSA", "d": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": 1, "y": 2, "d": 3},
        rsa_jwk(rsa_key()),
        ec_jwk(ec_key()),
        ed25519_jwk(ed25519_key()),
        private_jwk(rsa_key()) | {"n": "AQAB"},
        private_jwk(ec_key()) | {"d": "AQAB"},
        private_pem(ec_key("secp256k1")),
        private_pem(rsa_key(bits=1024)),
    ],
)
def test_an_unusable_private_key_is_a_configuration_error(key: str | dict[str, object]) -> None:
    with refused(Code.CONFIGURATION_KEY_UNUSABLE, ConfigurationError):
        Signer.of_private_key(key)


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        *(("RS256", each) for each in ("ES256", "EdDSA", "HS256", "none")),
        *(("ES256", "ES384"), ("ES256", "RS256"), ("EdDSA", "ES256")),
    ],
)
def test_a_key_signs_only_with_algorithms_of_its_kind(kind: str, algorithm: str) -> None:
    with refused(Code.CONFIGURATION_KEY_UNUSABLE, ConfigurationError):
        Signer.of_private_key(KEYS[kind], algorithm=algorithm)


def test_a_secret_must_be_long_enough_and_the_algorithm_known() -> None:
    with refused(Code.CONFIGURATION_SECRET_TOO_SHORT, ConfigurationError):
        Signer.of_secret("s" * 31, "HS256")
    with refused(Code.CONFIGURATION_KEY_UNUSABLE, ConfigurationError):
        Signer.of_secret(SECRET, "HS1")
    with refused(Code.CONFIGURATION_KEY_UNUSABLE, ConfigurationError):
        Signer.of_secret(SECRET, "RS256")


def test_the_error_does_not_quote_the_key() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Signer.of_private_key("hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_key_does_not_show() -> None:
    assert SECRET not in repr(Signer.of_secret(SECRET, "HS256"))
