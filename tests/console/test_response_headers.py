"""No response of the console is kept by a cache, framed, or runs what is not the console's."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from examples.console.app import create_app
from examples.console.monitors import Monitors
from examples.console.pages import STATIC_PATH
from tests.console.browser import Browser
from tests.console.running import RunningConsole, asked, signed_in
from tests.console.test_roles import NAVIGATION, addressed, own_routes


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host) as browser:
        browser.open_until(" up ", "/")
        yield browser


def hold(response: httpx.Response, cached: str = "no-store private") -> None:
    headers, url = response.headers, response.request.url
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; "), url
    assert "frame-ancestors 'none'" in policy, url
    assert "unsafe" not in policy, url
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert headers["cache-control"] in cached.split(), url
    assert headers["referrer-policy"] in ("same-origin", "no-referrer"), url


def test_what_a_user_gets_is_that_users_alone(host: RunningConsole, alice: Browser) -> None:
    headers = {"origin": host.url, **NAVIGATION}
    with httpx.Client(base_url=host.url, cookies=alice.cookies, headers=headers) as client:
        for method, path in own_routes(host, host.parts.apis):
            sent = {"csrf_token": "no"} if method == "POST" else None
            asked_for = addressed(path, "demo")
            response = client.request(
                method, asked_for, params={"seconds": "0"}, data=sent, timeout=20
            )
            hold(response)
            assert response.headers["vary"] == "Cookie", path
            assert "set-cookie" not in response.headers, path
            assert method == "GET" or response.status_code in (403, 409, 422), path
            assert method == "POST" or response.status_code in (200, 303, 404, 409), path


def test_what_strangers_get(host: RunningConsole) -> None:
    with httpx.Client(base_url=host.url, headers=NAVIGATION, timeout=20) as stranger:
        for method, path in own_routes(host, host.parts.apis):
            hold(stranger.request(method, addressed(path, "demo")))
        hold(stranger.get("/signed-out"))
        file = stranger.get(f"{STATIC_PATH}/console.css").headers
        assert file["cache-control"] == "public, max-age=31536000, immutable"
    app = create_app(host.parts.oidc, Monitors({}), metrics_token="of-prometheus")
    refused = asked(app, "/metrics", {})
    hold(refused)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
