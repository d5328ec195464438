import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.testing import DevClient, DevUser, Refused
from tests.oidc.protocol.jose.keypairs import public_pem
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, jwt_parts, returned


async def test_without_a_hint_the_page_lists_every_user(rp: BareClient) -> None:
    page = await rp.authorize(login_hint="")
    assert page.status_code == 200
    assert "Alice Doe" in page.text
    assert 'value="bob"' in page.text
    assert "For development only" in page.text


@pytest.mark.parametrize("end", ["its use", "ten minutes"])
async def test_a_page_works_once_and_for_ten_minutes(rp: BareClient, end: str) -> None:
    form = {"login": login_name((await rp.authorize(login_hint="")).text), "user": "bob"}
    if end == "its use":
        await rp.http.post("/log-in", data=form)
    rp.time.now += 600 if end == "ten minutes" else 0
    assert (await rp.http.post("/log-in", data=form)).status_code == 400


async def test_an_unknown_user_is_told_as_such_and_the_page_stays_good(rp: BareClient) -> None:
    login = login_name((await rp.authorize(login_hint="")).text)
    refused = await rp.http.post("/log-in", data={"login": login, "user": "nobody"})
    assert refused.status_code == 400
    assert "there is no user &#x27;nobody&#x27; here; there are: alice, bob" in refused.text
    answer = await rp.http.post("/log-in", data={"login": login, "user": "bob"})
    assert "code" in returned(answer)


@pytest.mark.parametrize("path", ["/log-in", "/decline"])
async def test_a_page_that_never_was_does_not_work(rp: BareClient, path: str) -> None:
    refused = await rp.http.post(path, data={"login": "unknown", "user": "bob"})
    assert refused.status_code == 400


async def test_declining_is_access_denied(rp: BareClient) -> None:
    page = await rp.authorize(login_hint="")
    answer = await rp.http.post("/decline", data={"login": login_name(page.text)})
    assert returned(answer)["error"] == "access_denied"


@pytest.mark.parametrize("prompt", ["login", "select_account"])
async def test_a_prompt_shows_the_page_to_a_signed_in_browser(rp: BareClient, prompt: str) -> None:
    await rp.code()
    assert (await rp.authorize(login_hint="", prompt=prompt)).status_code == 200


async def test_prompt_none_is_of_the_hints_user_and_as_recent_as_max_age(rp: BareClient) -> None:
    id_token = (await rp.tokens(login_hint="alice"))["id_token"]
    rp.time.now += 61
    assert (await rp.answer(prompt="none", max_age="60"))["error"] == "login_required"
    await rp.code(login_hint="bob")
    answer = await rp.answer(prompt="none", login_hint="", id_token_hint=id_token)
    assert answer["error"] == "login_required"


def login_name(page: str) -> str:
    """The name under which the page's request waits."""
    found = re.search(r'name="login" value="([^"]+)"', page)
    assert found is not None
    return found[1]


async def test_whoever_opens_the_issuer_is_told_where_to_begin(rp: BareClient) -> None:
    page = await rp.http.get(f"{rp.provider.issuer}/")
    assert page.status_code == 200
    assert "Open your application: it sends you here to sign in." in page.text


WRONG = {
    "unsupported_response_type": [{"response_type": "token"}],
    "invalid_scope": [{"scope": "profile"}, {"scope": ""}],
    "request_not_supported": [{"request": "a.b.c"}],
    "invalid_request": [
        *({"response_type": ""}, {"code_challenge": ""}, {"code_challenge": "short"}),
        *({"code_challenge_method": "plain"}, {"code_challenge_method": ""}),
        *({"prompt": "none login"}, {"prompt": "whenever"}, {"max_age": "-1"}, {"max_age": "soon"}),
    ],
}


@pytest.mark.parametrize(
    ("change", "error"), [(change, error) for error, many in WRONG.items() for change in many]
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


async def test_the_request_may_be_posted_and_a_redirect_uri_keeps_its_own_query() -> None:
    rp = bare_client(replace(APP, redirect_uris=["https://app.test/callback?tenant=1"]))
    form = rp.parameters(redirect_uri="https://app.test/callback?tenant=1")
    answer = returned(await rp.http.post("/authorize", data=form))
    assert answer["tenant"] == "1"
    assert "code" in answer


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
