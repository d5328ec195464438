from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.testing import DevClient, DevUser
from fastapi_oidc.testing.registration import AuthenticationMethod
from tests.oidc.protocol.jose.keypairs import public_pem
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, jwt_parts

ED448_PEM = public_pem(ed448.Ed448PrivateKey.generate())


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("client_secret_basic", "client_secret"),
        ("client_secret_post", "client_secret"),
        ("client_secret_jwt", "client_secret"),
        ("private_key_jwt", "public_key"),
    ],
)
def test_a_method_needs_its_secret_or_key(method: AuthenticationMethod, needed: str) -> None:
    with pytest.raises(ConfigurationError, match=f"needs a {needed}"):
        DevClient(client_id="app", token_endpoint_auth_method=method)


@pytest.mark.parametrize("public_key", ["", "no PEM", ED448_PEM])
def test_a_public_key_must_be_usable(public_key: str) -> None:
    with pytest.raises(ConfigurationError, match="public_key is not a PEM"):
        DevClient(
            client_id="app", token_endpoint_auth_method="private_key_jwt", public_key=public_key
        )


def test_the_secret_is_not_shown() -> None:
    assert "hidden" not in repr(DevClient(client_id="app", client_secret="hidden"))


def test_a_user_without_a_name_is_called_by_the_sub() -> None:
    assert DevUser("alice").claims_for(["openid", "profile", "email"]) == {
        "name": "alice",
        "preferred_username": "alice",
    }


ASYMMETRIC = [name for name in ALGORITHMS if not name.startswith("HS")]


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
async def test_a_key_is_published_with_its_one_use(algorithm: str) -> None:
    rp = bare_client(replace(APP, id_token_signed_response_alg=algorithm))
    header, _ = jwt_parts((await rp.tokens())["id_token"])
    published = (await rp.http.get("/jwks")).json()["keys"]
    [key] = [key for key in published if key["kid"] == header["kid"]]
    assert (key["alg"], key["use"]) == (algorithm, "sig")
    assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set(key)


async def test_a_hint_signed_with_a_replaced_key_is_still_a_hint(rp: BareClient) -> None:
    id_token = (await rp.tokens())["id_token"]
    rp.provider.rotate_keys()
    assert "code" in await rp.answer(prompt="none", login_hint="", id_token_hint=id_token)


@pytest.mark.parametrize(
    ("algorithm", "reason"), [("none", "unknown"), ("XS256", "unknown"), ("HS256", "secret")]
)
def test_an_algorithm_that_cannot_sign_is_refused(algorithm: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        DevClient(client_id="app", id_token_signed_response_alg=algorithm)
