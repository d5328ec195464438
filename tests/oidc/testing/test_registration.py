from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.testing import DevClient, DevUser
from tests.oidc.protocol.jose.keypairs import public_pem
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, jwt_parts

METHOD, NO_SECRET = "token_endpoint_auth_method", "needs a client_secret"
NO_PEM = "public_key is not a PEM"
ED448_PEM = public_pem(ed448.Ed448PrivateKey.generate())


@pytest.mark.parametrize(
    ("registered", "fault"),
    [
        *[({METHOD: f"client_secret_{kind}"}, NO_SECRET) for kind in ("basic", "post", "jwt")],
        ({METHOD: "private_key_jwt"}, "needs a public_key"),
        *[({METHOD: "private_key_jwt", "public_key": pem}, NO_PEM) for pem in ("", "x", ED448_PEM)],
        *[({"id_token_signed_response_alg": name}, "unknown") for name in ("none", "XS256")],
        ({"id_token_signed_response_alg": "HS256"}, "secret"),
    ],
    ids=range(10),
)
def test_a_client_that_cannot_work_is_refused(registered: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        DevClient(client_id="app", **registered)


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
