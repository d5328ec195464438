from dataclasses import replace
from urllib.parse import urlencode

import pytest

from fastapi_oidc.testing import AuthorizationRequested, Refused
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, returned


async def test_a_valid_request_is_answered_with_code_state_and_issuer(rp: BareClient) -> None:
    answer = await rp.answer()
    assert set(answer) == {"code", "state", "iss", "session_state"}
    assert (answer["state"], answer["iss"]) == ("the-state", rp.provider.issuer)
    [event] = rp.provider.record.of(AuthorizationRequested)
    assert event.parameters["nonce"] == "the-nonce"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "invalid_request"),
        ({"scope": "profile"}, "invalid_scope"),
        ({"scope": ""}, "invalid_scope"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"prompt": "none login"}, "invalid_request"),
        ({"prompt": "whenever"}, "invalid_request"),
        ({"max_age": "-1"}, "invalid_request"),
        ({"max_age": "soon"}, "invalid_request"),
        ({"request": "a.b.c"}, "request_not_supported"),
    ],
)
async def test_one_wrong_parameter_is_told_to_the_client(
    rp: BareClient, change: dict[str, str], error: str
) -> None:
    answer = await rp.answer(**change)
    assert (answer["error"], answer["state"]) == (error, "the-state")
    assert answer["iss"] == rp.provider.issuer
    assert [event.error for event in rp.provider.record.of(Refused)] == [error]


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "stranger"},
        {"client_id": ""},
        {"redirect_uri": "https://app.test/callback/"},
        {"redirect_uri": "https://app.test/callback?next=1"},
        {"redirect_uri": ""},
        {"response_mode": "fragment"},
        {"request_uri": "urn:ietf:params:oauth:request_uri:unknown"},
    ],
)
async def test_nothing_is_redirected_while_the_return_address_is_in_doubt(
    rp: BareClient, change: dict[str, str]
) -> None:
    answer = await rp.authorize(**change)
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "Request refused" in answer.text


async def test_a_repeated_parameter_is_refused(rp: BareClient) -> None:
    query = urlencode([*rp.parameters().items(), ("state", "again")])
    answer = await rp.http.get(f"/authorize?{query}")
    assert answer.status_code == 400
    assert "more than once" in answer.text


async def test_the_refusal_page_escapes_what_the_request_said(rp: BareClient) -> None:
    answer = await rp.authorize(redirect_uri="https://app.test/<script>alert(1)</script>")
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert" in answer.text


async def test_the_request_may_be_posted(rp: BareClient) -> None:
    answer = await rp.http.post("/authorize", data=rp.parameters())
    assert "code" in returned(answer)


async def test_a_redirect_uri_keeps_its_own_query() -> None:
    rp = bare_client(replace(APP, redirect_uris=["https://app.test/callback?tenant=1"]))
    answer = await rp.answer(redirect_uri="https://app.test/callback?tenant=1")
    assert answer["tenant"] == "1"
    assert "code" in answer
