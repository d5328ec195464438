from __future__ import annotations

from uuid import uuid4

import pytest

from fastapi_oidc.errors import Code
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.jose.verify import Unverified, verified_claims
from fastapi_oidc.protocol.json import JSON, Claims
from tests.oidc.protocol.examples import refused
from tests.oidc.protocol.jose.keypairs import (
    compact,
    ec_jwk,
    ec_key,
    ed25519_jwk,
    ed25519_key,
    rs,
    rsa_jwk,
    rsa_key,
)

NAMES = ("one", "two", "three")
OTHER_TYPES: list[JSON] = [
    ec_jwk(ec_key()),
    ec_jwk(ec_key("secp256k1")),
    ed25519_jwk(ed25519_key()),
    rsa_jwk(rsa_key("enc"), use="enc"),
    ec_jwk(ec_key(name="enc"), use="enc"),
]
NAMED: list[JSON] = [rsa_jwk(rsa_key(name), kid=name) for name in NAMES]
NAMELESS: list[JSON] = [rsa_jwk(rsa_key(name)) for name in NAMES]


def verify(*, kid: str | None, signed_by: str, keys: list[JSON]) -> Claims:
    header = {"alg": "RS256"} if kid is None else {"alg": "RS256", "kid": kid}
    return verified_claims(
        CompactJWS.parse(compact(header, {"sub": "alice"}, rs(rsa_key(signed_by)))),
        JsonWebKeySet.parse({"keys": keys}),
        algorithms={"RS256"},
        client_secret=None,
    )


def test_a_kid_names_the_key() -> None:
    assert verify(kid="two", signed_by="two", keys=NAMED + OTHER_TYPES)


def test_without_kid_the_only_key_that_suits_is_taken() -> None:
    assert verify(kid=None, signed_by="one", keys=[*OTHER_TYPES, rsa_jwk(rsa_key())])


@pytest.mark.parametrize("keys", [NAMED, NAMELESS])
@pytest.mark.parametrize("signed_by", NAMES)
def test_without_kid_each_key_that_suits_is_tried(keys: list[JSON], signed_by: str) -> None:
    assert verify(kid=None, signed_by=signed_by, keys=keys + OTHER_TYPES)


def test_two_keys_of_one_name_are_both_tried() -> None:
    keys: list[JSON] = [rsa_jwk(rsa_key(name), kid="same") for name in ("one", "two")]
    assert verify(kid="same", signed_by="two", keys=keys)


@pytest.mark.parametrize("keys", [NAMED, NAMELESS, OTHER_TYPES, []])
def test_an_unknown_kid_asks_for_a_fresh_set(keys: list[JSON]) -> None:
    with refused(Code.JWS_KEY_MISSING, Unverified):
        verify(kid="four", signed_by="attacker", keys=keys)


@pytest.mark.parametrize("keys", [OTHER_TYPES, []])
def test_no_key_that_suits_asks_for_a_fresh_set(keys: list[JSON]) -> None:
    with refused(Code.JWS_KEY_MISSING, Unverified):
        verify(kid=None, signed_by="one", keys=keys)


def test_a_token_without_kid_by_an_unknown_key_asks_for_a_fresh_set() -> None:
    with refused(Code.JWS_SIGNATURE, Unverified):
        verify(kid=None, signed_by="attacker", keys=NAMELESS)


@pytest.mark.parametrize("names_old_key", [True, False])
def test_a_token_that_names_the_wrong_key_is_verified_by_the_right_one(
    names_old_key: bool, caplog: pytest.LogCaptureFixture
) -> None:
    # Each pair of names is logged once in a process.
    old, new = uuid4().hex, uuid4().hex
    keys: list[JSON] = [rsa_jwk(rsa_key("two"), kid=new), *NAMELESS[:1], *OTHER_TYPES]
    if names_old_key:
        keys.append(rsa_jwk(rsa_key("one"), kid=old))
    for _ in range(2):
        assert verify(kid=old, signed_by="two", keys=keys)
    assert caplog.messages == [
        f"the provider names the wrong key: a token with kid '{old}' is signed by the key '{new}'"
    ]


def test_no_key_of_the_issuer_has_signed_it() -> None:
    with refused(Code.JWS_SIGNATURE, Unverified):
        verify(kid="one", signed_by="attacker", keys=NAMED)


@pytest.mark.parametrize("alg", ["RS512", "PS256", "RSA-OAEP", "none"])
def test_a_key_for_another_algorithm_does_not_suit(alg: str) -> None:
    with refused(Code.JWS_KEY_MISSING, Unverified):
        verify(kid="one", signed_by="one", keys=[rsa_jwk(rsa_key(), kid="one", alg=alg)])
