import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError
from fastapi_oidc.protocol.encoding import JSON, Claims, CompactJWS, Header
from fastapi_oidc.protocol.jose.keys import (
    ALGORITHMS,
    JsonWebKey,
    JsonWebKeySet,
    Unverified,
    require_algorithms,
    verified_claims,
)
from fastapi_oidc.protocol.jose.sign import Signer
from tests.oidc.protocol.examples import ABSENT, Changes, changed, changes, each, refused
from tests.oidc.protocol.jose.keypairs import (
    PrivateKey,
    base64url,
    compact,
    ec_key,
    ed25519_key,
    number,
    private_pem,
    public_jwk,
    public_pem,
    rs,
    rsa_key,
)

RSA = public_jwk(rsa_key(), kid="rsa-1", use="sig", alg="RS256", key_ops=["verify"], x5t="ignored")
EC = public_jwk(ec_key(), kid="ec-1", use="sig")
OKP = public_jwk(ed25519_key(), kid="okp-1")

RSA_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
MODULUS = rsa_key().public_key().public_numbers().n
POINT = ec_key().public_key().public_numbers()


@pytest.mark.parametrize(
    ("jwk", "algorithms"),
    [
        (RSA, ["RS256"]),
        (changed(RSA, {"alg": ABSENT}), RSA_ALGORITHMS),
        (changed(RSA, {"alg": None}), RSA_ALGORITHMS),
        (EC, ["ES256"]),
        (public_jwk(ec_key("P-384"), kid="ec-2"), ["ES384"]),
        (public_jwk(ec_key("P-521"), kid="ec-3"), ["ES512"]),
        (OKP, ["EdDSA", "Ed25519"]),
    ],
)
def test_a_key_verifies_what_it_may(jwk: dict[str, JSON], algorithms: list[str]) -> None:
    assert parsed(jwk) == (jwk["kid"], algorithms)


def parsed(jwk: dict[str, JSON]) -> tuple[object, list[str]]:
    key = JsonWebKey.parse(jwk)
    assert key is not None
    return key.kid, list(key.verifiers)


def test_the_shortest_rsa_key_is_read() -> None:
    parsed(changed(RSA, {"n": number(1 << 2047 | 1)}))


@pytest.mark.parametrize("name", ["kid", "use", "alg", "key_ops", "d"])
def test_a_description_of_null_is_absent(name: str) -> None:
    assert parsed(changed(RSA, {name: None})) == parsed(changed(RSA, {name: ABSENT}))


def unusable(jwk: dict[str, JSON], wrong: Sequence[Changes]) -> list[object]:
    return [changed(jwk, change) for change in wrong]


DEFECTS: Mapping[str, Sequence[object]] = {
    "RSA: type": unusable(RSA, changes("kty", ABSENT, None, "rsa", "AKP", ["RSA"])),
    "RSA: secret": unusable(RSA, [{"kty": "oct", "k": "c2VjcmV0"}, {"d": "AQAB"}]),
    "RSA: use": unusable(RSA, changes("use", "enc", ["sig"])),
    "RSA: operations": unusable(RSA, changes("key_ops", ["encrypt"], [], "verify")),
    "RSA: algorithm": unusable(RSA, changes("alg", "RSA-OAEP", "ES256", 1)),
    "RSA: modulus": unusable(
        RSA, changes("n", ABSENT, None, "", MODULUS, "not base64url!", number(1 << 2046 | 1))
    ),
    "RSA: exponent": unusable(RSA, changes("e", ABSENT, 65537, "", "AA", "AQ", "Ag")),
    "EC: curve": unusable(EC, changes("crv", ABSENT, "secp256k1", "P-384", "Ed25519", ["P-256"])),
    "EC: point": unusable(EC, changes("x", ABSENT, "", 1, number(POINT.x >> 8, 31))),
    "EC: another point": unusable(EC, changes("y", number(POINT.y ^ 1, 32), number(POINT.x, 32))),
    "EC: private": unusable(EC, [{"d": "AQAB"}]),
    "OKP: curve": unusable(OKP, changes("crv", "Ed448", "X25519", None)),
    "OKP: octets": unusable(OKP, changes("x", ABSENT, base64url(bytes(31)), base64url(bytes(33)))),
    "OKP: private": unusable(OKP, [{"d": "AQAB"}]),
    "no key": [None, 1, "key", [], [RSA], public_jwk(rsa_key(bits=1024))],
}


@pytest.mark.parametrize("jwk", each(DEFECTS))
def test_one_defect_makes_a_key_unusable(jwk: object) -> None:
    assert JsonWebKey.parse(jwk) is None


@pytest.mark.parametrize(("jwk", "name"), [(RSA, "n"), (RSA, "e"), (EC, "x"), (OKP, "x")])
def test_a_number_costs_no_memory(jwk: dict[str, JSON], name: str) -> None:
    """Of `bytes(10**10)` a process has no memory left."""
    tracemalloc.start()
    assert JsonWebKey.parse({**jwk, name: 10**7}) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


def test_unusable_keys_do_not_poison_the_set() -> None:
    enc = changed(RSA, {"use": "enc"})
    secp256k1 = public_jwk(ec_key("secp256k1"))
    keys = JsonWebKeySet.parse({"keys": [None, enc, secp256k1, RSA, {}, OKP, "key"]}).keys
    assert [key.kid for key in keys] == ["rsa-1", "okp-1"]
    assert JsonWebKeySet.parse({"keys": []}) == JsonWebKeySet(())


@pytest.mark.parametrize(
    "document", [None, [], {}, {"keys": None}, {"keys": {}}, [RSA], {"keys": [OKP] * 101}]
)
def test_a_set_has_a_list_of_at_most_100_keys(document: object) -> None:
    with refused(Code.PROVIDER_KEYS_INVALID, ProviderError):
        JsonWebKeySet.parse(document)
    assert len(JsonWebKeySet.parse({"keys": [OKP] * 100}).keys) == 100


NAMES = ("one", "two", "three")
OTHER_TYPES: list[JSON] = [
    public_jwk(ec_key()),
    public_jwk(ec_key("secp256k1")),
    public_jwk(ed25519_key()),
    public_jwk(rsa_key("enc"), use="enc"),
    public_jwk(ec_key(name="enc"), use="enc"),
]
NAMED: list[JSON] = [public_jwk(rsa_key(name), kid=name) for name in NAMES]
NAMELESS: list[JSON] = [public_jwk(rsa_key(name)) for name in NAMES]


def verify(*, kid: str | None, signed_by: str, keys: list[JSON]) -> Claims:
    header = {"alg": "RS256"} if kid is None else {"alg": "RS256", "kid": kid}
    return verified_claims(
        CompactJWS.parse(compact(header, {"sub": "alice"}, rs(rsa_key(signed_by)))),
        JsonWebKeySet.parse({"keys": keys}),
        algorithms={"RS256"},
        client_secret=None,
    )


@pytest.mark.parametrize("signed_by", NAMES)
def test_a_kid_names_the_key_and_without_one_each_that_suits_is_tried(signed_by: str) -> None:
    assert verify(kid=signed_by, signed_by=signed_by, keys=NAMED + OTHER_TYPES)
    for keys in (NAMED, NAMELESS):
        assert verify(kid=None, signed_by=signed_by, keys=keys + OTHER_TYPES)


def test_two_keys_of_one_name_are_both_tried() -> None:
    keys: list[JSON] = [public_jwk(rsa_key(name), kid="same") for name in ("one", "two")]
    assert verify(kid="same", signed_by="two", keys=keys)


@pytest.mark.parametrize(
    ("kid", "keys"),
    [*product(["four"], [NAMED, NAMELESS, OTHER_TYPES, []]), (None, OTHER_TYPES), (None, [])],
)
def test_an_unknown_kid_or_no_key_asks_for_a_fresh_set(kid: str | None, keys: list[JSON]) -> None:
    with refused(Code.JWS_KEY_MISSING, Unverified):
        verify(kid=kid, signed_by="one" if kid is None else "attacker", keys=keys)


@pytest.mark.parametrize(("kid", "keys"), [(None, NAMELESS), ("one", NAMED)])
def test_a_token_by_an_unknown_key_asks_for_a_fresh_set(kid: str | None, keys: list[JSON]) -> None:
    with refused(Code.JWS_SIGNATURE, Unverified):
        verify(kid=kid, signed_by="attacker", keys=keys)


@pytest.mark.parametrize("names_old_key", [True, False])
def test_a_token_that_names_the_wrong_key_is_verified_by_the_right_one(names_old_key: bool) -> None:
    keys: list[JSON] = [public_jwk(rsa_key("two"), kid="new"), *NAMELESS[:1], *OTHER_TYPES]
    if names_old_key:
        keys.append(public_jwk(rsa_key("one"), kid="old"))
    assert verify(kid="old", signed_by="two", keys=keys)


@pytest.mark.parametrize("alg", ["RS512", "PS256", "RSA-OAEP", "none"])
def test_a_key_for_another_algorithm_does_not_suit(alg: str) -> None:
    with refused(Code.JWS_KEY_MISSING, Unverified):
        verify(kid="one", signed_by="one", keys=[public_jwk(rsa_key(), kid="one", alg=alg)])


SECRET = "s" * 64


def test_the_table_has_the_algorithms_of_the_design_and_no_other() -> None:
    assert set(ALGORITHMS) == {
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
        *("HS256", "HS384", "HS512"),
    }


@pytest.mark.parametrize(
    "names",
    [["RS256"], ("RS256", "ES256", "EdDSA"), {"PS512"}, frozenset({"ES384"}), ["HS256", "HS512"]],
)
def test_known_algorithms_can_be_pinned(names: list[str]) -> None:
    assert require_algorithms(names, SECRET) == frozenset(names)


@pytest.mark.parametrize(
    "names",
    [[], "RS256", ["none"], ["RS256", "none"], ["rs256"], ["RS256 "], ["RS256", "HS256"]],
)
def test_any_other_choice_is_a_configuration_error(names: list[str]) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_algorithms(names, SECRET)


@pytest.mark.parametrize(("name", "octets"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_is_as_long_as_the_hash(name: str, octets: int) -> None:
    assert require_algorithms([name], "é" * (octets // 2)) == {name}
    for secret in ("s" * (octets - 1), "", None, "-----BEGIN PUBLIC KEY-----" + "s" * octets):
        with refused(Code.CONFIGURATION_SECRET_TOO_SHORT, ConfigurationError):
            require_algorithms([name], secret)


CLAIMS = {"iss": "client-1", "aud": "https://op.test/", "exp": 1}
KEYS: dict[str, PrivateKey] = {
    "RS256": rsa_key(),
    "ES256": ec_key("P-256"),
    "ES384": ec_key("P-384"),
    "ES512": ec_key("P-521"),
    "EdDSA": ed25519_key(),
}


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


@pytest.mark.parametrize("algorithm", KEYS)
def test_every_form_of_a_key_signs_alike_with_the_algorithm_of_its_kind(algorithm: str) -> None:
    key = KEYS[algorithm]
    keys = JsonWebKeySet.parse({"keys": [public_jwk(key)]})
    for form in (key, private_pem(key), private_jwk(key)):
        signer = Signer.of_private_key(form, key_id=None)
        assert signer.algorithm.name == algorithm
        jws = CompactJWS.parse(signer.sign(CLAIMS))
        unnamed = replace(jws, header=Header(algorithm))
        assert verified_claims(unnamed, keys, algorithms={algorithm}, client_secret=None)


def test_a_jwk_names_its_algorithm_and_itself() -> None:
    jwk = private_jwk(rsa_key()) | {"alg": "PS384", "kid": "key-2"}
    signer, other = Signer.of_private_key(jwk), Signer.of_private_key(jwk, algorithm="RS256")
    assert (signer.algorithm.name, signer.key_id) == ("PS384", "key-2")
    assert (other.algorithm.name, other.key_id) == ("RS256", "key-2")
    assert Signer.of_private_key(jwk, key_id="key-3").key_id == "key-3"


@pytest.mark.parametrize(
    "key",
    [
        *("", "secret", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"),
        *(private_pem(rsa_key(), BestAvailableEncryption(b"password")), public_pem(rsa_key())),
        *({}, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "OKP", "crv": "Ed448", "d": "AAAA"}),
        *({"kty": "OKP", "crv": "Ed25519"}, {"kty": "RSA", "d": "AQAB"}),
        {"kty": "EC", "crv": "P-256", "x": 1, "y": 2, "d": 3},
        *map(public_jwk, KEYS.values()),
        *(private_jwk(rsa_key()) | {"n": "AQAB"}, private_jwk(ec_key()) | {"d": "AQAB"}),
        *(private_pem(ec_key("secp256k1")), private_pem(rsa_key(bits=1024))),
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
    for unknown in ("HS1", "RS256"):
        with refused(Code.CONFIGURATION_KEY_UNUSABLE, ConfigurationError):
            Signer.of_secret(SECRET, unknown)


def test_the_error_does_not_quote_the_key() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Signer.of_private_key("hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_key_does_not_show() -> None:
    assert SECRET not in repr(Signer.of_secret(SECRET, "HS256"))
