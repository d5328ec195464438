import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation
from fastapi_oidc.protocol.encoding import JSON, Claims, CompactJWS
from fastapi_oidc.protocol.id_token import access_token_hash
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet, verified_claims
from tests.oidc.protocol.examples import refused
from tests.oidc.protocol.jose.keypairs import (
    Sign,
    base64url,
    compact,
    ec_key,
    ed25519_key,
    es,
    hs,
    ps,
    public_jwk,
    rs,
    rsa_key,
    segment,
)

SECRET = "s" * 64
CLAIMS: Claims = {"sub": "alice"}
CURVES = {"256": "P-256", "384": "P-384", "512": "P-521"}
KEYS: list[JSON] = [
    public_jwk(rsa_key()),
    public_jwk(ed25519_key()),
    *(public_jwk(ec_key(curve)) for curve in CURVES.values()),
]
SIGNERS: dict[str, Sign] = {
    **{f"RS{bits}": rs(rsa_key(), bits) for bits in CURVES},
    **{f"PS{bits}": ps(rsa_key(), bits) for bits in CURVES},
    **{f"ES{bits}": es(ec_key(curve), bits) for bits, curve in CURVES.items()},
    **{f"HS{bits}": hs(SECRET, bits) for bits in CURVES},
    **dict.fromkeys(("EdDSA", "Ed25519"), ed25519_key().sign),
}


def verify(
    text: str, *algorithms: str, keys: list[JSON] = KEYS, client_secret: str | None = SECRET
) -> Claims:
    return verified_claims(
        CompactJWS.parse(text),
        JsonWebKeySet.parse({"keys": keys}),
        algorithms=frozenset(algorithms),
        client_secret=client_secret,
    )


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_a_signature_of_every_algorithm_is_verified(algorithm: str) -> None:
    assert verify(compact({"alg": algorithm}, CLAIMS, SIGNERS[algorithm]), algorithm) == CLAIMS


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_any_other_signature_is_refused(algorithm: str) -> None:
    token = compact({"alg": algorithm}, CLAIMS, SIGNERS[algorithm])
    header, claims, signature = token.split(".")
    right = SIGNERS[algorithm](token.rpartition(".")[0].encode())
    damaged = (bytes([right[0] ^ 1]) + right[1:], right[:-1] + bytes([right[-1] ^ 1]))
    for other in (*damaged, b"", b"\x00", bytes(64), bytes(256), bytes(1000)):
        with refused(Code.JWS_SIGNATURE, ProtocolViolation):
            verify(f"{header}.{claims}.{base64url(other)}", algorithm)
    with refused(Code.JWS_SIGNATURE, ProtocolViolation):
        verify(f"{header}.{segment({'sub': 'mallory'})}.{signature}", algorithm)


@pytest.mark.parametrize("algorithm", ["none", "NONE", "rs256", "RS256 ", "RS1", "ES256K", ""])
def test_an_unknown_algorithm_is_refused_even_when_pinned(algorithm: str) -> None:
    with refused(Code.JWS_ALGORITHM, ProtocolViolation):
        verify(compact({"alg": algorithm}, CLAIMS, lambda _message: b""), algorithm, "RS256")


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_an_algorithm_that_is_not_pinned_is_refused(algorithm: str) -> None:
    others = SIGNERS.keys() - {algorithm}
    with refused(Code.JWS_ALGORITHM, ProtocolViolation):
        verify(compact({"alg": algorithm}, CLAIMS, SIGNERS[algorithm]), *others)


def test_the_claims_are_read_only_after_the_signature() -> None:
    with refused(Code.JWS_SIGNATURE, ProtocolViolation):
        verify(compact({"alg": "RS256"}, b"no claims", lambda _message: b""), "RS256")
    with refused(Code.JWS_CLAIMS_MALFORMED, ProtocolViolation):
        verify(compact({"alg": "RS256"}, b"no claims", SIGNERS["RS256"]), "RS256")


def test_a_public_key_is_never_a_secret() -> None:
    modulus = rsa_key().public_key().public_numbers().n.to_bytes(256)
    for secret in (str(KEYS[0]), base64url(modulus)):
        with refused(Code.JWS_SIGNATURE, ProtocolViolation):
            verify(compact({"alg": "HS256"}, CLAIMS, hs(secret)), "HS256")


def test_a_secret_of_the_key_set_is_never_used() -> None:
    shared: list[JSON] = [{"kty": "oct", "k": base64url(b"k" * 32), "kid": "shared"}]
    token = compact({"alg": "HS256", "kid": "shared"}, CLAIMS, hs("k" * 32))
    with refused(Code.JWS_SIGNATURE, ProtocolViolation):
        verify(token, "HS256", keys=shared)


@pytest.mark.parametrize("secret", [None, "", "s" * 31, "-----BEGIN PUBLIC KEY-----" + "s" * 32])
def test_a_secret_that_cannot_be_a_key_verifies_nothing(secret: str | None) -> None:
    with refused(Code.CONFIGURATION_SECRET_TOO_SHORT, ConfigurationError):
        verify(compact({"alg": "HS256"}, CLAIMS, hs(secret or "")), "HS256", client_secret=secret)


def test_a_key_in_the_header_is_never_used() -> None:
    own = rsa_key("attacker")
    header = {"alg": "RS256", "jwk": public_jwk(own), "jku": "https://evil.test/jwks"}
    with refused(Code.JWS_SIGNATURE, ProtocolViolation):
        verify(compact(header, CLAIMS, rs(own)), "RS256")


def test_an_algorithm_is_bound_to_its_curve() -> None:
    token = compact({"alg": "ES256"}, CLAIMS, es(ec_key("P-384")))
    with refused(Code.JWS_KEY_MISSING, ProtocolViolation):
        verify(token, "ES256", keys=[public_jwk(ec_key("P-384"))])


def test_the_salt_of_pss_is_as_long_as_the_hash() -> None:
    token = compact({"alg": "PS256"}, CLAIMS, ps(rsa_key(), "384"))
    with refused(Code.JWS_SIGNATURE, ProtocolViolation):
        verify(token, "PS256")


@pytest.mark.parametrize("setting", [None, "userinfo_signing_algorithms"])
def test_a_refused_algorithm_names_the_setting_that_pins_it(setting: str | None) -> None:
    token = CompactJWS.parse(compact({"alg": "RS384"}, CLAIMS, SIGNERS["RS384"]))
    named = {} if setting is None else {"setting": setting}
    keys = JsonWebKeySet.parse({"keys": KEYS})
    with pytest.raises(ProtocolViolation) as caught:
        verified_claims(token, keys, algorithms={"RS256"}, client_secret=None, **named)
    assert caught.value.details["setting"] == (setting or "id_token_signing_algorithms")


PUBLISHED_CLAIMS = (
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)


def test_rfc_7515_a_3_es256() -> None:
    jwk = {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }
    token = CompactJWS.parse(
        f"eyJhbGciOiJFUzI1NiJ9.{PUBLISHED_CLAIMS}"
        ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    keys = JsonWebKeySet.parse({"keys": [jwk]})
    claims = verified_claims(token, keys, algorithms={"ES256"}, client_secret=None)
    assert claims == {"iss": "joe", "exp": 1300819380, "http://example.com/is_root": True}


def test_core_a_3_at_hash() -> None:
    access_token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"
    assert access_token_hash(access_token, "RS256") == "77QmUPtjPfzWtF2AnpK9RQ"
