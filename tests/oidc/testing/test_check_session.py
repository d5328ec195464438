import base64
import hashlib
import json
import re
import subprocess

import httpx
import pytest

from tests.oidc.testing.bare_client import BareClient
from tests.programs import require_program

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
