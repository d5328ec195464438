import re
from dataclasses import replace

import httpx
import pytest

from tests.oidc.testing.bare_client import (
    AFTER_LOGOUT,
    APP,
    CALLBACK,
    BareClient,
    bare_client,
    returned,
)


async def end_session(rp: BareClient, **parameters: str) -> httpx.Response:
    present = {name: value for name, value in parameters.items() if value}
    return await rp.http.get("/end-session", params=present)


async def is_signed_in(rp: BareClient) -> bool:
    return "code" in await rp.answer(prompt="none", login_hint="")


async def test_a_hint_may_list_its_audience(rp: BareClient) -> None:
    rp.provider.edits.put("id_token", lambda claims: claims | {"aud": ["unknown", "app"]})
    await end_session(rp, id_token_hint=(await rp.tokens())["id_token"])
    assert not await is_signed_in(rp)


async def test_a_hint_of_another_provider_ends_nothing(rp: BareClient) -> None:
    await rp.code()
    refused = await end_session(rp, id_token_hint=(await bare_client().tokens())["id_token"])
    assert refused.status_code == 400
    assert "not issued by this provider" in refused.text
    assert await is_signed_in(rp)


async def test_without_a_session_the_browser_just_returns(rp: BareClient) -> None:
    answer = await end_session(rp, client_id="app", post_logout_redirect_uri=AFTER_LOGOUT)
    assert answer.headers["location"] == AFTER_LOGOUT


async def test_without_a_hint_the_user_is_asked(rp: BareClient) -> None:
    await rp.code()
    page = await end_session(rp, client_id="app", post_logout_redirect_uri=AFTER_LOGOUT, state="s")
    assert "Sign out?" in page.text
    assert await is_signed_in(rp)
    found = re.search(r'name="logout" value="([^"]+)"', page.text)
    assert found is not None
    answer = await rp.http.post("/confirm-logout", data={"logout": found[1]})
    assert answer.headers["location"] == AFTER_LOGOUT + "?state=s"
    assert not await is_signed_in(rp)


async def test_a_question_that_was_never_asked_has_no_answer(rp: BareClient) -> None:
    await rp.code()
    assert (await rp.http.post("/confirm-logout", data={"logout": "unknown"})).status_code == 400
    assert await is_signed_in(rp)


async def test_the_hint_of_another_user_asks_too(rp: BareClient) -> None:
    hint = (await rp.tokens(login_hint="alice"))["id_token"]
    await rp.code(login_hint="bob")
    assert "Sign out?" in (await end_session(rp, id_token_hint=hint)).text


@pytest.mark.parametrize(
    "change",
    [
        {"post_logout_redirect_uri": AFTER_LOGOUT + "/"},
        {"post_logout_redirect_uri": CALLBACK},
        {"id_token_hint": "a.b.c"},
        {"client_id": "stranger"},
        {"client_id": "other"},
        {"client_id": "", "id_token_hint": ""},
    ],
)
async def test_one_wrong_parameter_ends_nothing(change: dict[str, str]) -> None:
    rp = bare_client(APP, replace(APP, client_id="other"))
    valid = {
        "id_token_hint": (await rp.tokens())["id_token"],
        "client_id": "app",
        "post_logout_redirect_uri": AFTER_LOGOUT,
    }
    refused = await end_session(rp, **{**valid, **change})
    assert refused.status_code == 400
    assert await is_signed_in(rp)


async def test_offline_access_outlives_the_session(rp: BareClient) -> None:
    tokens = await rp.tokens(scope="openid offline_access")
    await end_session(rp, id_token_hint=tokens["id_token"])
    assert (await rp.refresh(tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize(
    ("uri", "is_local"),
    [
        ("http://127.0.0.1:8000/", True),
        ("http://localhost:3000/bye", True),
        ("http://[::1]:8000/", True),
        ("http://127.0.0.1.evil.test/", False),
        ("http://evil.test/?127.0.0.1", False),
        ("javascript://127.0.0.1/", False),
    ],
)
async def test_any_local_uri_means_this_machine_alone(uri: str, is_local: bool) -> None:
    rp = bare_client(replace(APP, any_local_uri=True))
    redirected = await rp.authorize(redirect_uri=uri)
    logged_out = await end_session(rp, client_id="app", post_logout_redirect_uri=uri)
    assert (redirected.status_code == 303) is is_local
    assert (logged_out.status_code != 400) is is_local
    if is_local:
        assert "code" in returned(redirected)
