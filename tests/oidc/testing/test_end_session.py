import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ed448

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.testing import DevClient, LogoutDelivered, Refused
from tests.oidc.protocol.jose.keypairs import public_pem
from tests.oidc.testing.bare_client import (
    AFTER_LOGOUT,
    APP,
    CALLBACK,
    BareClient,
    bare_client,
    jwt_parts,
    returned,
)
from tests.programs import require_program


async def end_session(rp: BareClient, **parameters: str) -> httpx.Response:
    present = {name: value for name, value in parameters.items() if value}
    return await rp.http.get("/end-session", params=present)


async def is_signed_in(rp: BareClient) -> bool:
    return "code" in await rp.answer(prompt="none", login_hint="")


async def test_a_hint_of_another_provider_ends_nothing(rp: BareClient) -> None:
    await rp.code()
    refused = await end_session(rp, id_token_hint=(await bare_client().tokens())["id_token"])
    assert refused.status_code == 400
    assert "not issued by this provider" in refused.text
    assert await is_signed_in(rp)


async def test_without_a_hint_the_user_is_asked(rp: BareClient) -> None:
    there = {"client_id": "app", "post_logout_redirect_uri": AFTER_LOGOUT}
    answer = await end_session(rp, **there)
    assert answer.headers["location"] == AFTER_LOGOUT, "without a session"
    hint = (await rp.tokens(login_hint="alice"))["id_token"]
    await rp.code(login_hint="bob")
    assert "Sign out?" in (await end_session(rp, id_token_hint=hint)).text, "of another user"
    page = await end_session(rp, **there, state="s")
    assert "Sign out?" in page.text
    assert (await rp.http.post("/confirm-logout", data={"logout": "unknown"})).status_code == 400
    assert await is_signed_in(rp)
    found = re.search(r'name="logout" value="([^"]+)"', page.text)
    assert found is not None
    answer = await rp.http.post("/confirm-logout", data={"logout": found[1]})
    assert answer.headers["location"] == AFTER_LOGOUT + "?state=s"
    assert not await is_signed_in(rp)


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
        ("http://127.0.0.1.evil.test/", False),
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


URI = "https://app.test/backchannel-logout"
LISTENING = replace(APP, backchannel_logout_uri=URI)


def fail(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def listening(
    *clients: DevClient,
    answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(200),
) -> tuple[BareClient, list[httpx.Request]]:
    """Also the requests to the back-channel logout endpoints of the clients."""
    rp, requests = bare_client(*clients), list[httpx.Request]()

    def serve(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answer(request)

    assert rp.provider.back_channel_transport is None
    rp.provider.back_channel_transport = httpx.MockTransport(serve)
    return rp, requests


async def test_every_client_of_the_session_is_told() -> None:
    other = replace(LISTENING, client_id="other", backchannel_logout_uri=URI + "/other")
    rp, requests = listening(LISTENING, other)
    await rp.code()
    await rp.code(client_id="other")
    await rp.provider.log_out("alice")
    assert {str(request.url) for request in requests} == {URI, URI + "/other"}


@pytest.mark.parametrize(("answer", "status"), [(lambda _: httpx.Response(400), 400), (fail, None)])
async def test_a_client_that_does_not_take_it_is_recorded(
    answer: Callable[[httpx.Request], httpx.Response], status: int | None
) -> None:
    rp, _ = listening(LISTENING, answer=answer)
    await rp.code()
    await rp.provider.log_out("alice")
    assert [event.status for event in rp.provider.record.of(LogoutDelivered)] == [status]
    assert (await rp.answer(prompt="none", login_hint=""))["error"] == "login_required"


FRAMED = replace(
    APP,
    frontchannel_logout_uri="https://app.test/front?a=1",
)


def frames(page: str) -> list[str]:
    return [unescape(url) for url in re.findall(r'<iframe src="([^"]*)"', page)]


async def ended_page(rp: BareClient, **changes: str) -> tuple[str, str, str]:
    """The page, its policy, and the `sid` that has ended."""
    id_token = (await rp.tokens())["id_token"]
    answer = await rp.http.get("/end-session", params={"id_token_hint": id_token, **changes})
    sid = str(jwt_parts(id_token)[1]["sid"])
    return answer.text, answer.headers["content-security-policy"], sid


@pytest.mark.parametrize(
    ("is_required", "query"), [(True, "&iss=https%3A%2F%2Fop.test&sid={}"), (False, "")]
)
async def test_the_frames_come_before_the_redirect_and_name_what_is_required(
    is_required: bool, query: str
) -> None:
    rp = bare_client(replace(FRAMED, frontchannel_logout_session_required=is_required))
    page, policy, sid = await ended_page(rp, post_logout_redirect_uri=AFTER_LOGOUT)
    assert frames(page) == [f"https://app.test/front?a=1{query.format(sid)}"]
    assert "frame-src https://app.test;" in policy
    assert re.search(rf'content="\d;url={AFTER_LOGOUT}"', page)


# The few parts of a browser that the script of the iframe touches.
BROWSER = """
const [script, cookies, message, origin] = JSON.parse(process.argv[1]);
globalThis.document = { cookie: cookies };
globalThis.window = globalThis;
let listener;
globalThis.addEventListener = (_name, added) => { listener = added };
new Function(script)();
const source = { postMessage: (answer, target) => console.log(JSON.stringify([answer, target])) };
await listener({ data: message, origin, source });
"""


def answer_of(page: str, cookies: httpx.Cookies, message: str, origin: str) -> list[str]:
    """What the script posts back to its parent for `message`."""
    node = require_program("node", package="nodejs")
    found = re.search(r"<script>(.*)</script>", page, re.DOTALL)
    assert found is not None
    jar = "; ".join(f"{name}={value}" for name, value in cookies.items())
    arguments = json.dumps([found[1], jar, message, origin])
    run = subprocess.run(
        [node, "--input-type=module", "--eval", BROWSER, arguments], capture_output=True, check=True
    )
    answer: list[str] = json.loads(run.stdout)
    return answer


async def test_the_policy_allows_the_script_and_framing(rp: BareClient) -> None:
    page = await rp.http.get("/check-session")
    found = re.search(r"<script>(.*)</script>", page.text, re.DOTALL)
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "frame-ancestors" not in policy


@pytest.mark.parametrize(
    ("message", "origin", "expected"),
    [
        ("app {}", "https://app.test", "unchanged"),
        ("app {}", "https://evil.test", "changed"),
        ("app", "https://app.test", "error"),
        ("app a.b c", "https://app.test", "error"),
    ],
)
async def test_it_knows_the_session_of_origins(
    rp: BareClient, message: str, origin: str, expected: str
) -> None:
    message = message.format((await rp.answer())["session_state"])
    page = (await rp.http.get("/check-session")).text
    assert answer_of(page, rp.http.cookies, message, origin) == [expected, origin]


@pytest.mark.parametrize("signs_out", [True, False])
async def test_signing_out_and_another_user_are_changes(rp: BareClient, signs_out: bool) -> None:
    state = (await rp.answer(login_hint="alice"))["session_state"]
    if signs_out:
        id_token = (await rp.tokens())["id_token"]
        await rp.http.get("/end-session", params={"id_token_hint": id_token})
    else:
        await rp.answer(login_hint="bob")
    page = (await rp.http.get("/check-session")).text
    answer = answer_of(page, rp.http.cookies, f"app {state}", "https://app.test")
    assert answer[0] == "changed"


@pytest.mark.parametrize("end", ["its use", "ten minutes"])
async def test_a_page_works_once_and_for_ten_minutes(rp: BareClient, end: str) -> None:
    form = {"login": login_name((await rp.authorize(login_hint="")).text), "user": "bob"}
    if end == "its use":
        await rp.http.post("/log-in", data=form)
    rp.time.now += 600 if end == "ten minutes" else 0
    assert (await rp.http.post("/log-in", data=form)).status_code == 400


async def test_the_page_lists_every_user_and_stays_good_after_an_unknown_one(
    rp: BareClient,
) -> None:
    page = (await rp.authorize(login_hint="")).text
    for text in ("Alice Doe", 'value="bob"', "For development only"):
        assert text in page
    form = {"login": login_name(page), "user": "nobody"}
    refused = await rp.http.post("/log-in", data=form)
    assert refused.status_code == 400
    assert "there is no user &#x27;nobody&#x27; here; there are: alice, bob" in refused.text
    assert "code" in returned(await rp.http.post("/log-in", data=form | {"user": "bob"}))


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


async def test_a_repeated_parameter_is_refused_and_the_page_escapes_what_was_said(
    rp: BareClient,
) -> None:
    query = urlencode([*rp.parameters().items(), ("state", "again")])
    answer = await rp.http.get(f"/authorize?{query}")
    assert answer.status_code == 400
    assert "more than once" in answer.text
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
