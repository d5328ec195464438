from dataclasses import replace

import pytest

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.testing import DevClient
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, jwt_parts

LONG_SECRET = "secret" * 11
ASYMMETRIC = [name for name in ALGORITHMS if not name.startswith("HS")]


async def keys(rp: BareClient) -> JsonWebKeySet:
    return JsonWebKeySet.parse((await rp.http.get("/jwks")).json())


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
