"""RFC 9449: a proof is accepted as a whole, and refused for each rule that it breaks; clients."""

import json
from base64 import b64decode
from typing import Any
from urllib.parse import unquote_plus

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation
from fastapi_oidc.protocol import dpop
from fastapi_oidc.protocol.client_auth import ASSERTION_TYPE, Parts, client_authentication
from fastapi_oidc.protocol.encoding import CompactJWS, encode_base64url
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet, verified_claims
from fastapi_oidc.protocol.jose.sign import Signer
from tests.oidc.protocol.examples import CLIENT_ID, ISSUER, NOW, Changes, Rules, breaking, changes
from tests.oidc.protocol.jose.keypairs import (
    compact,
    ec_key,
    ed25519_key,
    private_pem,
    public_jwk,
    rsa_key,
)

URL = "https://api.test/machines"
TOKEN = "the-access-token"
KEY = dpop.DPoPKey.new()


def claims(**changes: object) -> dict[str, object]:
    """The claims of a good proof; None removes one."""
    good = {"jti": "jti-1", "htm": "GET", "htu": URL, "iat": NOW, "nonce": "nonce-1"}
    good["ath"] = dpop.access_token_digest(TOKEN)
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def signed(members: dict[str, object], *, typ: str = "dpop+jwt", jwk: Any = KEY.jwk) -> str:
    return Signer.of_private_key(KEY.key).sign(members, typ=typ, jwk=jwk)


def accepted(proof: str, **changes: Any) -> dpop.Proof:
    request = {"method": "GET", "url": URL, "now": NOW, "access_token": TOKEN}
    bound = {"thumbprint": KEY.thumbprint, "nonce": "nonce-1"}
    return dpop.accept_proof(proof, **{**request, **bound, **changes})


def refused(proof: str, **changes: Any) -> Code:
    with pytest.raises(ProtocolViolation) as violation:
        accepted(proof, **changes)
    assert TOKEN not in violation.value.message
    return violation.value.code


def test_a_good_proof() -> None:
    assert accepted(signed(claims())) == dpop.Proof("jti-1", KEY.thumbprint, NOW)


def test_what_a_key_makes_is_accepted() -> None:
    first, second = (
        KEY.proof("POST", "https://op.test/token?a=1#b", NOW, access_token=TOKEN, nonce="nonce-1")
        for _ in range(2)
    )
    found = accepted(first, method="POST", url="https://op.test/token")
    assert found.thumbprint == KEY.thumbprint
    assert found.jti != accepted(second, method="POST", url="https://op.test/token").jti


def test_swapped_arguments_are_no_proof() -> None:
    with pytest.raises(ValueError, match="relative URL"):
        KEY.proof("https://op.test/token", "POST", NOW)


def test_at_a_token_endpoint_neither_token_nor_nonce_is_needed() -> None:
    proof = KEY.proof("POST", URL, NOW)
    assert dpop.accept_proof(proof, method="POST", url=URL, now=NOW).thumbprint == KEY.thumbprint


BROKEN: Rules = {
    Code.DPOP_MALFORMED: [
        *changes("jti", None, ""),
        *changes("htm", None),
        *changes("htu", None, "https://[", "https://api.test:x/machines"),
        *changes("iat", None, "now"),
    ],
    Code.DPOP_TARGET: [
        *changes("htm", "POST", "get"),
        *changes("htu", "http://api.test/machines", "https://other.test/machines"),
        *changes("htu", "https://api.test/other", "https://api.test:8443/machines"),
    ],
    Code.DPOP_ISSUED_AT: changes("iat", NOW - 61, NOW + 61),
    Code.DPOP_ACCESS_TOKEN: changes("ath", None, dpop.access_token_digest("another")),
    Code.DPOP_NONCE: changes("nonce", None, "nonce-0"),
}


@pytest.mark.parametrize(("change", "code"), breaking(BROKEN))
def test_one_wrong_claim(change: Changes, code: Code) -> None:
    assert refused(signed(claims(**change))) is code


def test_a_request_may_have_a_host_that_is_none() -> None:
    assert refused(signed(claims()), url="https://api.test:99999/") is Code.DPOP_MALFORMED


@pytest.mark.parametrize("iat", [NOW - 60, NOW + 60])
def test_clocks_may_differ_by_a_minute(iat: int) -> None:
    assert accepted(signed(claims(iat=iat))).iat == iat


@pytest.mark.parametrize("htu", ["HTTPS://API.test/machines", "https://api.test:443/machines?a#b"])
def test_urls_are_compared_normalized(htu: str) -> None:
    assert accepted(signed(claims(htu=htu))).jti == "jti-1"


def test_the_token_may_be_bound_to_another_key() -> None:
    assert refused(signed(claims()), thumbprint=dpop.DPoPKey.new().thumbprint) is Code.DPOP_KEY


class TestHeader:
    @pytest.mark.parametrize(
        "proof",
        [
            *(signed(claims(), typ=typ) for typ in ("JWT", "DPoP+JWT", "")),
            *(
                signed(claims(), jwk=jwk)
                for jwk in (None, "text", {}, {"kty": "EC", "crv": "P-256"})
            ),
            signed(claims(), jwk={**KEY.jwk, "d": KEY.to_text()}),
            Signer.of_secret("s" * 32, "HS256").sign(claims(), typ="dpop+jwt", jwk=KEY.jwk),
            compact({"alg": "none", "typ": "dpop+jwt", "jwk": KEY.jwk}, claims(), lambda _: b""),
        ],
    )
    def test_it_has_the_type_an_asymmetric_algorithm_and_a_public_key(self, proof: str) -> None:
        assert refused(proof) is Code.DPOP_MALFORMED

    def test_the_key_in_it_has_signed_and_is_of_the_algorithm(self) -> None:
        other = public_jwk(ec_key("P-384"))
        for jwk in (dpop.DPoPKey.new().jwk, other):
            assert refused(signed(claims(), jwk=jwk)) is Code.DPOP_SIGNATURE

    @pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.b.c.d.e", "é.é.é", "x" * 70_000])
    def test_it_is_a_jws(self, text: str) -> None:
        assert refused(text) is Code.DPOP_MALFORMED

    def test_it_has_no_extension(self) -> None:
        header = {"alg": "ES256", "typ": "dpop+jwt", "jwk": dict(KEY.jwk), "crit": ["b64"]}
        first, rest = signed(claims()).split(".", 1)
        changed = encode_base64url(json.dumps(header).encode())
        assert refused(f"{changed}.{rest}") is Code.DPOP_MALFORMED
        assert first != changed

    @pytest.mark.parametrize(
        ("key", "algorithm"),
        [(rsa_key(), "PS256"), (ec_key("P-521"), "ES512"), (ed25519_key(), "EdDSA")],
    )
    def test_other_kinds_of_keys(self, key: Any, algorithm: str) -> None:
        jwk = public_jwk(key)
        signer = Signer.of_private_key(key, algorithm=algorithm)
        proof = signer.sign(claims(), typ="dpop+jwt", jwk=jwk)
        found = accepted(proof, thumbprint=None)
        assert found.thumbprint == dpop.jwk_thumbprint(jwk)


class TestKey:
    def test_a_text_of_43_characters_and_back(self) -> None:
        text = KEY.to_text()
        assert len(text) == 43
        assert dpop.DPoPKey.from_text(text).thumbprint == KEY.thumbprint

    @pytest.mark.parametrize("text", ["", "AQEB", "A" * 43, "!" * 43, "_" * 43])
    def test_another_text_is_no_key(self, text: str) -> None:
        with pytest.raises(ValueError) as error:  # noqa: PT011 (of any library)
            dpop.DPoPKey.from_text(text)
        assert len(text) < 43 or text not in str(error.value)

    def test_it_has_no_secret_in_its_repr(self) -> None:
        assert repr(KEY) == "DPoPKey()"
        assert "d" not in KEY.jwk


def test_the_thumbprint_of_rfc_9449() -> None:
    """The key and `jkt` of the examples in RFC 9449 4.1 and 6.1; other members do not count."""
    jwk = {
        "kty": "EC",
        "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
        "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
        "crv": "P-256",
        "kid": "2011-04-29",
    }
    assert dpop.jwk_thumbprint(jwk) == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"


def test_the_digest_of_rfc_9449() -> None:
    """The access token and `ath` of the example in RFC 9449 7.1."""
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
    assert dpop.access_token_digest(token) == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://API.test", "https://api.test/"),
        ("http://api.test:80/a?b#c", "http://api.test/a"),
        ("http://api.test:443/", "http://api.test:443/"),
        ("https://[::1]:8443/a/", "https://[::1]:8443/a/"),
        ("https://user:password@api.test/", "https://api.test/"),
    ],
)
def test_targets(url: str, target: str) -> None:
    assert dpop.proof_target(url) == target


SECRET = "a secret: with % and + and é and at least 48 bytes"
PEM = private_pem(rsa_key())
FORM = {"grant_type": "refresh_token", "refresh_token": "refresh-1"}


def authenticated(
    method: str, *, secret: str | None = None, key: str | None = None, algorithm: str | None = None
) -> Parts:
    chosen = client_authentication(
        method,
        client_id=CLIENT_ID,
        client_secret=secret,
        private_key=key,
        algorithm=algorithm,
        key_id="key-1" if key else None,
    )
    return chosen.apply(FORM, audience=ISSUER, now=NOW, jti="jti-1")


@pytest.mark.parametrize("method", ["none", "tls_client_auth", "self_signed_tls_client_auth"])
def test_without_a_secret_the_form_only_says_who_the_client_is(method: str) -> None:
    """With a certificate, RFC 8705 2."""
    assert authenticated(method) == ({}, {**FORM, "client_id": CLIENT_ID})


def test_basic_form_urlencodes_both_parts() -> None:
    headers, form = authenticated("client_secret_basic", secret=SECRET)
    scheme, _, credentials = headers["Authorization"].partition(" ")
    client_id, client_secret = b64decode(credentials).decode("ascii").split(":")
    assert (scheme, unquote_plus(client_id)) == ("Basic", CLIENT_ID)
    assert unquote_plus(client_secret) == SECRET
    assert form == FORM


def test_post_puts_both_parts_into_the_form() -> None:
    credentials = {"client_id": CLIENT_ID, "client_secret": SECRET}
    assert authenticated("client_secret_post", secret=SECRET) == ({}, {**FORM, **credentials})


@pytest.mark.parametrize(
    ("method", "algorithm"),
    [
        *(("client_secret_jwt", algorithm) for algorithm in (None, "HS384")),
        *(("private_key_jwt", algorithm) for algorithm in (None, "PS256")),
    ],
)
def test_an_assertion_names_the_client_and_one_audience(method: str, algorithm: str | None) -> None:
    by_secret = method == "client_secret_jwt"
    key = None if by_secret else PEM
    headers, form = authenticated(method, secret=SECRET, key=key, algorithm=algorithm)
    assertion = form["client_assertion"]
    assert headers == {}
    assert form == {
        **FORM,
        "client_id": CLIENT_ID,
        "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": assertion,
    }
    token = CompactJWS.parse(assertion)
    assert token.header.alg == (algorithm or ("HS256" if by_secret else "RS256"))
    assert token.header.typ == "client-authentication+jwt"
    assert token.header.kid == (None if by_secret else "key-1")
    keys = JsonWebKeySet.parse({"keys": [public_jwk(rsa_key(), kid="key-1")]})
    claims = verified_claims(token, keys, algorithms={token.header.alg}, client_secret=SECRET)
    who = {"iss": CLIENT_ID, "sub": CLIENT_ID, "aud": ISSUER}
    assert claims == who | {"jti": "jti-1", "iat": NOW, "exp": NOW + 60}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_no_secret_shows(method: str) -> None:
    chosen = client_authentication(method, client_id="a", client_secret=SECRET, private_key=None)
    assert SECRET not in repr(chosen)


BY_SECRET = ("client_secret_basic", "client_secret_post", "client_secret_jwt")


@pytest.mark.parametrize(
    ("method", "secret", "key", "code"),
    [
        *((method, None, PEM, Code.CONFIGURATION_INVALID) for method in BY_SECRET),
        ("client_secret_jwt", "s" * 31, PEM, Code.CONFIGURATION_SECRET_TOO_SHORT),
        ("private_key_jwt", SECRET, None, Code.CONFIGURATION_INVALID),
        ("private_key_jwt", SECRET, SECRET, Code.CONFIGURATION_KEY_UNUSABLE),
    ],
)
def test_a_method_without_what_it_needs_is_a_configuration_error(
    method: str, secret: str | None, key: str | None, code: Code
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        authenticated(method, secret=secret, key=key)
    assert caught.value.code is code
    if secret is None:
        assert caught.value.explanation == f"{method} needs client_secret"
