import time

import httpx
import pytest

from fastapi_oidc.testing import AnswerLost, Delay, Drip, ServerError, SignedIn
from tests.oidc.testing.bare_client import BareClient


async def test_a_lost_answer_had_its_effect(rp: BareClient) -> None:
    refresh_token = (await rp.tokens())["refresh_token"]
    rp.provider.faults.put("token", AnswerLost())
    assert (await rp.refresh(refresh_token)).status_code == 502
    assert (await rp.refresh(refresh_token)).json()["error"] == "invalid_grant"


async def test_a_delay_comes_before_the_right_answer(rp: BareClient) -> None:
    rp.provider.faults.put("jwks", Delay(0.05))
    begun = time.monotonic()
    answer = await rp.http.get("/jwks")
    assert time.monotonic() - begun >= 0.05
    assert "keys" in answer.json()


def test_a_drip_gives_the_right_answer_slowly(rp: BareClient) -> None:
    rp.provider.faults.put("jwks", Drip(0.5))
    with rp.provider.serve() as issuer, httpx.Client(base_url=issuer) as http:
        with http.stream("GET", "/jwks") as answer:
            first = next(answer.iter_raw(1))
        assert (answer.status_code, first) == (200, b"{")


async def test_a_drip_ends(rp: BareClient) -> None:
    rp.provider.faults.put("jwks", Drip(0.0))
    slow, quick = await rp.http.get("/jwks"), await rp.http.get("/jwks")
    assert slow.json() == quick.json()


@pytest.mark.parametrize("path", ["/authorize", "/end-session"])
async def test_pages_can_fail_too(rp: BareClient, path: str) -> None:
    rp.provider.faults.put("authorization", ServerError(502))
    rp.provider.faults.put("end_session", ServerError(502))
    assert (await rp.http.get(path, params=rp.parameters())).status_code == 502


async def test_a_repeated_edit_replaces_the_first_and_clear_ends_them(rp: BareClient) -> None:
    rp.provider.edits.put("userinfo", lambda claims: claims | {"first": True})
    rp.provider.edits.put("userinfo", lambda claims: claims | {"second": True})
    token = (await rp.tokens())["access_token"]
    edited = (await rp.userinfo(token)).json()
    assert "first" not in edited
    assert edited["second"]
    rp.provider.edits.clear()
    assert "second" not in (await rp.userinfo(token)).json()


async def test_clear_forgets_events_but_no_session(rp: BareClient) -> None:
    await rp.code()
    rp.provider.record.clear()
    assert rp.provider.record.of(SignedIn) == []
    assert not rp.provider.record.calls
    assert "code" in await rp.answer(prompt="none", login_hint="")
