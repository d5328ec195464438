from base64 import b64decode
from urllib.parse import unquote_plus

import pytest

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.client_auth import (
    ASSERTION_TYPE,
    AuthenticatedForm,
    client_authentication,
)
from fastapi_oidc.protocol.encoding import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet, verified_claims
from tests.oidc.protocol.examples import CLIENT_ID, ISSUER, NOW
from tests.oidc.protocol.jose.keypairs import private_pem, rsa_jwk, rsa_key

SECRET = "a secret: with % and + and é and at least 48 bytes"
PEM = private_pem(rsa_key())
FORM = {"grant_type": "refresh_token", "refresh_token": "refresh-1"}


def authenticated(
    method: str, *, secret: str | None = None, key: str | None = None, algorithm: str | None = None
) -> AuthenticatedForm:
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
    assert authenticated(method) == AuthenticatedForm({}, {**FORM, "client_id": CLIENT_ID})


def test_basic_form_urlencodes_both_parts() -> None:
    request = authenticated("client_secret_basic", secret=SECRET)
    scheme, _, credentials = request.headers["Authorization"].partition(" ")
    client_id, client_secret = b64decode(credentials).decode("ascii").split(":")
    assert (scheme, unquote_plus(client_id)) == ("Basic", CLIENT_ID)
    assert unquote_plus(client_secret) == SECRET
    assert request.form == FORM


def test_post_puts_both_parts_into_the_form() -> None:
    credentials = {"client_id": CLIENT_ID, "client_secret": SECRET}
    assert authenticated("client_secret_post", secret=SECRET) == AuthenticatedForm(
        {}, {**FORM, **credentials}
    )


@pytest.mark.parametrize(
    ("method", "algorithm"),
    [
        ("client_secret_jwt", None),
        ("client_secret_jwt", "HS384"),
        ("private_key_jwt", None),
        ("private_key_jwt", "PS256"),
    ],
)
def test_an_assertion_names_the_client_and_one_audience(method: str, algorithm: str | None) -> None:
    by_secret = method == "client_secret_jwt"
    request = authenticated(
        method, secret=SECRET, key=None if by_secret else PEM, algorithm=algorithm
    )
    assertion = request.form["client_assertion"]
    assert request.headers == {}
    assert request.form == {
        **FORM,
        "client_id": CLIENT_ID,
        "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": assertion,
    }
    token = CompactJWS.parse(assertion)
    assert token.algorithm == (algorithm or ("HS256" if by_secret else "RS256"))
    assert token.typ == "client-authentication+jwt"
    assert token.kid == (None if by_secret else "key-1")
    assert verified_claims(
        token,
        JsonWebKeySet.parse({"keys": [rsa_jwk(rsa_key(), kid="key-1")]}),
        algorithms={token.algorithm},
        client_secret=SECRET,
    ) == {
        "iss": CLIENT_ID,
        "sub": CLIENT_ID,
        "aud": ISSUER,
        "jti": "jti-1",
        "iat": NOW,
        "exp": NOW + 60,
    }


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_no_secret_shows(method: str) -> None:
    chosen = client_authentication(
        method, client_id=CLIENT_ID, client_secret=SECRET, private_key=None
    )
    assert SECRET not in repr(chosen)
    assert repr(authenticated(method, secret=SECRET)) == "AuthenticatedForm()"


@pytest.mark.parametrize(
    ("method", "secret", "key", "code"),
    [
        ("", SECRET, PEM, Code.CONFIGURATION_INVALID),
        ("client_secret_magic", SECRET, PEM, Code.CONFIGURATION_INVALID),
        ("client_secret_basic", None, PEM, Code.CONFIGURATION_INVALID),
        ("client_secret_basic", "", PEM, Code.CONFIGURATION_INVALID),
        ("client_secret_post", None, PEM, Code.CONFIGURATION_INVALID),
        ("client_secret_jwt", None, PEM, Code.CONFIGURATION_INVALID),
        ("client_secret_jwt", "s" * 31, PEM, Code.CONFIGURATION_SECRET_TOO_SHORT),
        ("private_key_jwt", SECRET, None, Code.CONFIGURATION_KEY_UNUSABLE),
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
