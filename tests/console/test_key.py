"""The demo's guests run programs of this host: only who has the printed key gets in."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from examples.console.key import COOKIE, NEEDED
from examples.console.settings import ConsoleSettings
from tests.console.browser import Browser
from tests.console.running import ALICE
from tests.console.test_demo import demo, lines_until


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address that the demo prints."""
    with demo() as process:
        told = lines_until(process, "Stop with")
        assert "run programs as you on this host: nothing is isolated" in told
        yield next(word for word in told.split() if word.startswith("http://"))


def test_the_printed_address_leads_to_a_guest_that_runs_programs(address: str) -> None:
    with Browser(address) as alice:
        alice.home()
        alice.click(ALICE)
        assert "key=" not in alice.url
        alice.open_until("demo Running", "/")
        alice.open("/machines/demo/guest")
        assert "Nothing is isolated." in alice.text
        alice.click("Give access")
        alice.click("curl http://calendar.internal/events")
        assert "HTTP/1.1 200" in alice.text
        alice.open("/new")
        assert alice.field("new.agent") == "true"


@pytest.mark.parametrize("key", [None, "", "other", "ключ"])
@pytest.mark.parametrize("path", ["/", "/machines/demo/guest", "/auth/login", "/api/v1/machines"])
def test_nobody_gets_in_without_the_key(address: str, path: str, key: str | None) -> None:
    url = httpx.URL(address).join(path)
    cookies = {COOKIE: key} if key and key.isascii() else {}
    for method in ("GET", "POST"):
        params = {} if key is None else {"key": key}
        response = httpx.request(method, url, params=params, cookies=cookies)
        assert response.status_code == 403
        assert NEEDED in response.text
        assert "set-cookie" not in response.headers


def test_the_key_leaves_the_address_bar_and_no_script_reads_it(address: str) -> None:
    response = httpx.get(address)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert "httponly" in response.headers["set-cookie"].lower()


def test_the_provider_needs_no_key_to_say_that_somebody_signed_out(address: str) -> None:
    url = httpx.URL(address).join("/auth/backchannel-logout")
    assert httpx.post(url, data={"logout_token": "x"}).status_code == 400


@pytest.mark.parametrize(
    ("environment", "has_agent", "needs_key"),
    [
        ({}, True, True),
        ({"CONSOLE_SIMULATED_AGENT": ""}, False, False),
        ({"OIDC_ISSUER": "https://op.example.com"}, False, False),
        ({"OIDC_ISSUER": "https://op.example.com", "CONSOLE_SIMULATED_AGENT": "1"}, True, False),
        ({"FIRECRACKER_BIN": "/usr/bin/firecracker"}, True, True),
        (
            {"FIRECRACKER_BIN": "/usr/bin/firecracker", "OIDC_ISSUER": "https://op.test"},
            False,
            False,
        ),
        ({"VMM_SOCKET": "/run/web.socket"}, True, False),
    ],
)
def test_who_needs_a_key(environment: dict[str, str], has_agent: bool, needs_key: bool) -> None:
    settings = ConsoleSettings.from_environment(environment)
    assert (settings.simulated_agent, settings.needs_key) == (has_agent, needs_key)
