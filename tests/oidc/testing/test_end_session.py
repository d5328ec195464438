import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html import unescape

import httpx
import pytest

from fastapi_oidc.testing import DevClient, LogoutDelivered
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
    assert (await rp.http.post("/confirm-logout", data={"logout": "unknown"})).status_code == 400
    assert await is_signed_in(rp)
    found = re.search(r'name="logout" value="([^"]+)"', page.text)
    assert found is not None
    answer = await rp.http.post("/confirm-logout", data={"logout": found[1]})
    assert answer.headers["location"] == AFTER_LOGOUT + "?state=s"
    assert not await is_signed_in(rp)


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


URI = "https://app.test/backchannel-logout"
LISTENING = replace(APP, backchannel_logout_uri=URI)


class Listener:
    """The client's back-channel logout endpoint."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self.transport = httpx.MockTransport(self._serve)
        self.requests: list[httpx.Request] = []
        self._answer = answer

    def _serve(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answer(request)


def fail(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def listening(
    *clients: DevClient,
    answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(200),
) -> tuple[BareClient, Listener]:
    rp, listener = bare_client(*clients), Listener(answer)
    assert rp.provider.back_channel_transport is None
    rp.provider.back_channel_transport = listener.transport
    return rp, listener


async def test_every_client_of_the_session_is_told() -> None:
    other = replace(LISTENING, client_id="other", backchannel_logout_uri=URI + "/other")
    rp, listener = listening(LISTENING, other)
    await rp.code()
    await rp.code(client_id="other")
    await rp.provider.log_out("alice")
    assert {str(request.url) for request in listener.requests} == {URI, URI + "/other"}


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
    frontchannel_logout_session_required=True,
)


def frames(page: str) -> list[str]:
    return [unescape(url) for url in re.findall(r'<iframe src="([^"]*)"', page)]


async def ended_page(rp: BareClient, **changes: str) -> tuple[str, str, str]:
    """The page, its policy, and the `sid` that has ended."""
    id_token = (await rp.tokens())["id_token"]
    answer = await rp.http.get("/end-session", params={"id_token_hint": id_token, **changes})
    return (
        answer.text,
        answer.headers["content-security-policy"],
        str(jwt_parts(id_token)[1]["sid"]),
    )


async def test_a_frame_names_issuer_and_session() -> None:
    rp = bare_client(FRAMED)
    page, policy, sid = await ended_page(rp)
    assert frames(page) == [f"https://app.test/front?a=1&iss=https%3A%2F%2Fop.test&sid={sid}"]
    assert "frame-src https://app.test;" in policy


async def test_the_frames_come_before_the_redirect_and_name_what_is_required() -> None:
    rp = bare_client(replace(FRAMED, frontchannel_logout_session_required=False))
    page, _, _ = await ended_page(rp, post_logout_redirect_uri=AFTER_LOGOUT)
    assert frames(page) == ["https://app.test/front?a=1"]
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
    ("origin", "expected"), [("https://app.test", "unchanged"), ("https://evil.test", "changed")]
)
async def test_it_knows_the_session_of_origins(rp: BareClient, origin: str, expected: str) -> None:
    state = (await rp.answer())["session_state"]
    page = (await rp.http.get("/check-session")).text
    assert answer_of(page, rp.http.cookies, f"app {state}", origin) == [expected, origin]


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


@pytest.mark.parametrize("message", ["app", "app a.b c"])
async def test_a_malformed_message_is_an_error(rp: BareClient, message: str) -> None:
    page = (await rp.http.get("/check-session")).text
    answer = answer_of(page, rp.http.cookies, message, "https://app.test")
    assert answer[0] == "error"
