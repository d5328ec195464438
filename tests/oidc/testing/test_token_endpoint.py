from dataclasses import replace

import pytest

from fastapi_oidc.testing import TokensIssued
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, basic


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code": "unknown"}, "invalid_grant"),
        ({"code": ""}, "invalid_request"),
        ({"redirect_uri": "https://app.test/other"}, "invalid_grant"),
        ({"redirect_uri": ""}, "invalid_request"),
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
    ],
)
async def test_one_wrong_parameter_is_refused(
    rp: BareClient, change: dict[str, str], error: str
) -> None:
    answer = await rp.exchange(**{"code": await rp.code(), **change})
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert answer.headers["cache-control"] == "no-store"
    assert rp.provider.record.of(TokensIssued) == []


async def test_a_code_lives_one_minute(rp: BareClient) -> None:
    code = await rp.code()
    rp.time.now += 60
    assert (await rp.exchange(code)).json()["error"] == "invalid_grant"


async def test_a_code_is_worthless_to_another_client() -> None:
    rp = bare_client(APP, replace(APP, client_id="other", client_secret="another secret"))
    code = await rp.code()
    rp.authorization = basic("other", "another secret")
    assert (await rp.exchange(code)).json()["error"] == "invalid_grant"


async def test_the_body_must_be_a_form(rp: BareClient) -> None:
    answer = await rp.http.post("/token", json={"grant_type": "authorization_code"})
    assert answer.json()["error"] == "invalid_request"


class TestRefresh:
    async def test_it_is_worthless_to_another_client(self) -> None:
        rp = bare_client(APP, replace(APP, client_id="other", client_secret="another secret"))
        tokens = await rp.tokens()
        rp.authorization = basic("other", "another secret")
        assert (await rp.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"

    async def test_it_lives_two_weeks(self, rp: BareClient) -> None:
        tokens = await rp.tokens()
        rp.time.now += 14 * 24 * 3600
        assert (await rp.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"

    @pytest.mark.parametrize(
        ("scope", "status"), [("openid", 200), ("openid profile", 200), ("openid admin", 400)]
    )
    async def test_the_scope_can_only_shrink(self, rp: BareClient, scope: str, status: int) -> None:
        tokens = await rp.tokens()
        answer = await rp.refresh(tokens["refresh_token"], scope=scope)
        assert answer.status_code == status

    async def test_a_client_without_refresh_tokens_gets_none(self) -> None:
        rp = bare_client(replace(APP, issue_refresh_tokens=False))
        assert "refresh_token" not in await rp.tokens()
