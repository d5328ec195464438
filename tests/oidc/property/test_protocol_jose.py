"""Tokens and keys with every defect hypothesis finds: never an error that is not ours."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastapi_oidc.errors import OIDCError, ProtocolViolation
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS, require_algorithms
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKey, JsonWebKeySet, UnusableKey
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.protocol.jose.verify import verified_claims
from fastapi_oidc.protocol.json import JSON
from tests.oidc.property.protocol_values import json_values, odd_values, texts
from tests.oidc.protocol.examples import changed
from tests.oidc.protocol.jose.keypairs import compact
from tests.oidc.protocol.jose.test_keys import EC, OKP, RSA
from tests.oidc.protocol.jose.test_sign import KEYS as PRIVATE_KEYS
from tests.oidc.protocol.jose.test_sign import private_jwk
from tests.oidc.protocol.jose.test_verify import CLAIMS, KEYS, SIGNERS
from tests.oidc.protocol.jose.test_verify import SECRET as CLIENT_SECRET

KEY_SET = JsonWebKeySet.parse({"keys": KEYS})

member_names = st.sampled_from(
    ["kty", "crv", "n", "e", "x", "y", "d", "k", "kid", "alg", "use", "key_ops", "x5c"]
)
member_values = odd_values | json_values | st.binary(max_size=300).map(base64url.encode)


@given(octets=st.binary())
def test_base64url_has_one_text_for_one_value(octets: bytes) -> None:
    assert base64url.decode(base64url.encode(octets)) == octets


@given(text=texts | st.text("AQgw-_=+/\n é", max_size=12))
def test_any_text_is_base64url_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert base64url.encode(base64url.decode(text)) == text


@given(
    text=texts | st.lists(st.binary(max_size=60).map(base64url.encode), max_size=6).map(".".join)
)
def test_any_text_is_a_jws_or_refused(text: str) -> None:
    with suppress(ProtocolViolation):
        CompactJWS.parse(text)


@given(
    header=json_values
    | st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit"]), json_values)
)
def test_any_header(header: JSON) -> None:
    with suppress(ProtocolViolation):
        verified_claims(
            CompactJWS.parse(compact(header, CLAIMS, lambda _message: b"signature")),
            KEY_SET,
            algorithms=frozenset(ALGORITHMS),
            client_secret=CLIENT_SECRET,
        )
        pytest.fail("nobody signed this")


@given(algorithm=st.sampled_from(sorted(ALGORITHMS)), signature=st.binary(max_size=600))
def test_any_signature_is_wrong(algorithm: str, signature: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        verified_claims(
            CompactJWS.parse(compact({"alg": algorithm}, CLAIMS, lambda _message: signature)),
            KEY_SET,
            algorithms={algorithm},
            client_secret=CLIENT_SECRET,
        )


@given(
    algorithm=st.sampled_from(sorted(ALGORITHMS)), position=st.integers(0), bit=st.integers(0, 7)
)
def test_one_flipped_bit_anywhere_is_noticed(algorithm: str, position: int, bit: int) -> None:
    octets = bytearray(compact({"alg": algorithm}, CLAIMS, SIGNERS[algorithm]).encode())
    octets[position % len(octets)] ^= 1 << bit
    with pytest.raises(ProtocolViolation):
        verified_claims(
            CompactJWS.parse(octets.decode("latin-1")),
            KEY_SET,
            algorithms={algorithm},
            client_secret=CLIENT_SECRET,
        )


@given(
    jwk=st.sampled_from([RSA, EC, OKP]),
    changes=st.dictionaries(member_names, member_values, min_size=1, max_size=2),
)
def test_a_key_with_any_defect_verifies_or_is_left_out(
    jwk: dict[str, JSON], changes: dict[str, JSON]
) -> None:
    with suppress(UnusableKey):
        key = JsonWebKey.parse(changed(jwk, changes))
        assert not any(
            verifier.verify(b"message", b"signature") for verifier in key.verifiers.values()
        )


@given(document=json_values | st.builds(lambda keys: {"keys": keys}, json_values))
def test_any_key_set(document: JSON) -> None:
    with suppress(OIDCError):
        JsonWebKeySet.parse(document)


@settings(max_examples=25)  # finding the primes of an RSA key takes a tenth of a second
@given(
    algorithm=st.sampled_from(["RS256", "ES256", "EdDSA"]),
    changes=st.dictionaries(member_names, member_values, min_size=1, max_size=2),
)
def test_a_private_key_with_any_defect_signs_or_is_a_configuration_error(
    algorithm: str, changes: dict[str, JSON]
) -> None:
    with suppress(OIDCError):
        Signer.of_private_key(private_jwk(PRIVATE_KEYS[algorithm]) | changes)


@given(
    names=json_values | st.lists(st.sampled_from([*ALGORITHMS, "none"])), secret=st.none() | texts
)
def test_any_choice_of_algorithms(names: JSON, secret: str | None) -> None:
    with suppress(OIDCError):
        assert require_algorithms(names, secret) <= ALGORITHMS.keys()
