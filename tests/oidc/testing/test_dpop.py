"""DPoP at the provider (RFC 9449), with proofs that the library makes."""

from dataclasses import replace

import httpx
import pytest

from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.testing import DevClient
from tests.oidc.testing.bare_client import APP, BareClient, bare_client

BOUND = replace(APP, access_token_format="jwt", dpop_bound_access_tokens=True)
PUBLIC = replace(APP, client_secret=None)


def proof(rp: BareClient, key: DPoPKey, path: str = "/token", **changes: str) -> str:
    method = "GET" if path == "/userinfo" else "POST"
    return key.proof(
        method,
        rp.provider.issuer + path,
        int(rp.time.now),
        access_token=changes.get("access_token"),
        nonce=changes.get("nonce"),
    )


async def tokens(rp: BareClient, key: DPoPKey) -> dict[str, str]:
    rp.http.headers["DPoP"] = proof(rp, key)
    found = await rp.tokens()
    del rp.http.headers["DPoP"]
    return found


async def userinfo(rp: BareClient, token: str, header: str, scheme: str = "DPoP") -> httpx.Response:
    headers = {"Authorization": f"{scheme} {token}", "DPoP": header}
    return await rp.http.get("/userinfo", headers=headers)


async def test_a_client_that_must_bind_needs_a_proof() -> None:
    rp = bare_client(BOUND)
    refused = await rp.exchange(await rp.code())
    assert refused.json()["error"] == "invalid_dpop_proof"


async def test_a_wrong_proof_is_refused_and_the_code_stays() -> None:
    rp, key = bare_client(BOUND), DPoPKey.new()
    code = await rp.code()
    rp.http.headers["DPoP"] = proof(rp, key, "/elsewhere")
    assert (await rp.exchange(code)).json()["error"] == "invalid_dpop_proof"
    rp.http.headers["DPoP"] = proof(rp, key)
    assert (await rp.exchange(code)).status_code == 200


async def test_a_proof_is_used_once() -> None:
    rp = bare_client(BOUND)
    rp.http.headers["DPoP"] = proof(rp, DPoPKey.new())
    refresh_token = (await rp.tokens())["refresh_token"]
    assert (await rp.refresh(refresh_token)).json()["error"] == "invalid_dpop_proof"


async def test_two_proofs_are_refused() -> None:
    rp, key = bare_client(BOUND), DPoPKey.new()
    headers = [("DPoP", proof(rp, key)), ("DPoP", proof(rp, key))]
    form = {"grant_type": "refresh_token", "refresh_token": "any"}
    answer = await rp.http.post("/token", data=form, headers=headers, auth=rp.authorization)
    assert answer.json()["error"] == "invalid_dpop_proof"


@pytest.mark.parametrize(("client", "status"), [(PUBLIC, 400), (APP, 200)])
async def test_refresh_tokens_of_public_clients_are_bound(client: DevClient, status: int) -> None:
    rp = bare_client(client)
    rp.http.headers["DPoP"] = proof(rp, DPoPKey.new())
    found = (await rp.exchange(await rp.code(), client_id="app")).json()
    rp.http.headers["DPoP"] = proof(rp, DPoPKey.new())
    answer = await rp.refresh(found["refresh_token"], client_id="app")
    assert answer.status_code == status


class TestUserInfo:
    async def test_a_bound_token_is_no_bearer_token(self) -> None:
        rp, key = bare_client(BOUND), DPoPKey.new()
        token = (await tokens(rp, key))["access_token"]
        header = proof(rp, key, "/userinfo", access_token=token)
        refused = await userinfo(rp, token, header, scheme="Bearer")
        assert refused.json()["error"] == "invalid_token"

    @pytest.mark.parametrize("wrong", ["key", "access_token"])
    async def test_the_proof_must_fit(self, wrong: str) -> None:
        rp, key = bare_client(BOUND), DPoPKey.new()
        token = (await tokens(rp, key))["access_token"]
        signer = DPoPKey.new() if wrong == "key" else key
        about = "another" if wrong == "access_token" else token
        refused = await userinfo(rp, token, proof(rp, signer, "/userinfo", access_token=about))
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_dpop_proof")


async def test_an_edit_answers_bearer_all_the_same() -> None:
    rp = bare_client(BOUND)
    rp.provider.edits.put("token_response", lambda members: members | {"token_type": "Bearer"})
    assert (await tokens(rp, DPoPKey.new()))["token_type"] == "Bearer"
