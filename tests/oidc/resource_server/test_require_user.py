"""One guard for people with a session and programs with a token."""

import httpx
import pytest

from fastapi_oidc import AccessToken, Code, ConfigurationError, IdentityContext, StandardIdentity
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS
from fastapi_oidc.testing import session_for
from tests.oidc.resource_server.api_world import METADATA_URL, make_api_world
from tests.oidc.world import make_world


async def ask(
    browser: httpx.AsyncClient, method: str = "GET", path: str = "/either", **headers: str
) -> httpx.Response:
    return await browser.request(method, path, headers=headers)


async def test_a_session_gets_in() -> None:
    browser = await make_api_world().world.signed_in()
    answer = await ask(browser)
    assert answer.json() == {"sub": "alice", "by": "session", "token": None}


async def test_a_session_that_changes_something_needs_its_csrf_token() -> None:
    browser = await make_api_world().world.signed_in()
    refused = await ask(browser, "POST")
    assert (refused.status_code, refused.json()["code"]) == (403, Code.SESSION_CSRF)
    token = (await browser.get("/auth/session")).json()["csrf_token"]
    assert (await ask(browser, "POST", **{"X-CSRF-Token": token})).status_code == 200


async def test_scopes_are_required_of_tokens_alone() -> None:
    world = make_api_world()
    async with world.world.browser() as program:
        for scope, status in (("machines:read", 403), ("machines:write", 200)):
            header = f"Bearer {await world.token(scope)}"
            answer = await ask(program, "POST", "/either/machines", Authorization=header)
            assert answer.status_code == status
            if status == 403:
                assert 'scope="machines:write"' in answer.headers["www-authenticate"]
    browser = await world.world.signed_in()
    token = (await browser.get("/auth/session")).json()["csrf_token"]
    headers = {"X-CSRF-Token": token}
    assert (await ask(browser, "POST", "/either/machines", **headers)).json() == "alice"


async def test_a_token_beside_a_session_is_judged_alone_and_gets_no_cookie() -> None:
    world = make_api_world()
    token = await world.token()
    browser = await world.world.signed_in()
    world.world.time.advance(4000)  # a request with the session alone would refresh it
    answer = await ask(browser, Authorization=f"Bearer {token}")
    assert answer.json()["code"] == Code.ACCESS_TOKEN_EXPIRED
    assert "set-cookie" not in answer.headers
    answer = await ask(browser, Authorization=f"Bearer {await world.token()}")
    assert answer.json()["by"] == "token"
    assert "set-cookie" not in answer.headers
    headers = {"Authorization": "Bearer of-another-library"}
    answer = await browser.get("/auth/login", headers=headers, follow_redirects=False)
    assert (answer.status_code, "set-cookie" in answer.headers) == (302, False)
    refreshed = await ask(browser)
    assert refreshed.json()["by"] == "session"
    assert "set-cookie" in refreshed.headers


@pytest.mark.parametrize("header", ["Bearer a", "bearer a", "DPoP dead", "Bearer", "Bearer a b"])
async def test_a_bad_token_never_falls_back_to_the_session(header: str) -> None:
    browser = await make_api_world().world.signed_in()
    answer = await ask(browser, Authorization=header)
    assert answer.status_code in (400, 401)
    assert answer.json()["code"].partition(".")[0] in ("access_token", "jws")
    # Nor does a guard that wants a session take it.
    assert (await ask(browser, path="/me", Authorization=header)).status_code == 401


async def test_without_an_api_the_header_means_nothing() -> None:
    browser = await make_world().signed_in()
    answer = await ask(browser, path="/me", Authorization="Bearer of-another-library")
    assert answer.json()["sub"] == "alice"


async def test_a_program_without_either_is_told_of_both() -> None:
    async with make_api_world().world.browser() as program:
        answer = await ask(program)
    assert (answer.status_code, answer.json()["code"]) == (401, Code.SESSION_REQUIRED)
    cookie, _, bearer = answer.headers["www-authenticate"].partition(", Bearer ")
    assert cookie.startswith("Cookie ")
    bearer, _, dpop = bearer.partition(", DPoP ")
    assert bearer == f'realm="oidc", resource_metadata="{METADATA_URL}"'
    assert dpop == f'algs="{" ".join(PROOF_ALGORITHMS)}"'


async def test_a_person_without_either_is_sent_to_sign_in() -> None:
    async with make_api_world().world.browser() as browser:
        headers = {"Sec-Fetch-Mode": "navigate"}
        answer = await browser.get("/either", headers=headers, follow_redirects=False)
    assert answer.headers["location"] == "/auth/login?return_to=%2Feither"


async def test_the_identity_of_a_token_is_the_application_s() -> None:
    seen: list[IdentityContext] = []

    async def resolve(context: IdentityContext) -> StandardIdentity:
        seen.append(context)
        return StandardIdentity(sub=f"program:{context.id_token_claims['client_id']}")

    world = make_api_world(resolve_identity=resolve)
    token = await world.token()
    assert (await world.get(token, "/either")).json()["sub"] == "program:program"
    assert (seen[0].user_info, seen[0].access_token) == (None, token)
    browser = await world.world.signed_in()
    assert (await ask(browser)).json()["sub"] == "alice"
    assert len(seen) == 1


def test_without_one_api_there_is_no_common_guard() -> None:
    with pytest.raises(ConfigurationError, match="this instance has 0"):
        _ = make_world().oidc.require_user
    world = make_api_world()
    world.world.oidc.api("https://other.test")
    with pytest.raises(ConfigurationError, match=r"api\.require_user"):
        _ = world.world.oidc.require_user


class Overridden:
    """An application whose tests replace guards."""

    def __init__(self) -> None:
        self.world = make_api_world()
        self.app, self.oidc = self.world.world.app, self.world.world.oidc

    async def ask(self, path: str = "/either", method: str = "GET") -> httpx.Response:
        return await self.world.world.browser().request(method, path)


def fake_token(*scope: str) -> AccessToken:
    whose = ("https://op.test", "tester", ("api",), "tests")
    return AccessToken(*whose, scope, (), 0, {"sub": "tester"}, "value")


async def test_an_override_of_require_auth_reaches_require_user() -> None:
    it = Overridden()
    session = session_for(StandardIdentity(sub="tester"))
    it.app.dependency_overrides[it.oidc.require_auth] = lambda: session
    assert (await it.ask()).json() == {"sub": "tester", "by": "session", "token": None}
    assert (await it.ask(method="POST")).json()["code"] == Code.SESSION_CSRF
    it.app.dependency_overrides[it.oidc.require_csrf] = lambda: session
    assert (await it.ask(method="POST")).json()["by"] == "session"


async def test_an_override_of_the_token_reaches_every_scope_and_require_user() -> None:
    it = Overridden()

    async def token() -> AccessToken:
        return fake_token("machines:read")

    it.app.dependency_overrides[it.world.api.require()] = token
    assert (await it.ask("/machines")).json()["sub"] == "tester"
    assert (await it.ask("/machines", "POST")).json()["code"] == Code.ACCESS_TOKEN_SCOPE
    assert (await it.ask()).json() == {"sub": "tester", "by": "token", "token": "tests"}
