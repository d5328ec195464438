"""Who may do what: strangers learn nothing, viewers change nothing, by every route there is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi.openapi.utils import get_openapi

from examples.console.apis import NO_APIS, Apis
from examples.console.app import create_app
from examples.console.changes import CHANGES
from examples.console.monitors import Monitors
from tests.console.browser import Browser
from tests.console.running import BOB, RunningConsole, signed_in

OPEN = {"/signed-out", "/metrics"}
OF_EVERYBODY = {"/account/end-session", "/account/sign-out-everywhere"}
"""What viewers may post: their own sessions."""
NAVIGATION = {"accept": "text/html", "sec-fetch-mode": "navigate"}


def own_routes(host: RunningConsole, apis: Apis = NO_APIS) -> list[tuple[str, str]]:
    """Method and path of every route of the console; those of the library are under /auth."""
    monitors = host.parts.monitors if apis.routes else Monitors({})
    app = create_app(host.parts.oidc, monitors, apis=apis)
    described = get_openapi(title="", version="", routes=app.routes)["paths"]
    return [
        (method.upper(), path)
        for path, methods in described.items()
        for method in methods
        if not path.startswith("/auth") and path not in OPEN
    ]


def addressed(path: str, machine: str) -> str:
    names = {"machine": machine, "tab": "overview", "change": "start"}
    return re.sub(r"{(\w+)}", lambda name: names.get(name[1], "any"), path)


@pytest.fixture
def bob(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host, BOB) as browser:
        browser.open_until("demo Running", "/")
        yield browser


@pytest.mark.parametrize("headers", [NAVIGATION, {"accept": "application/json"}])
def test_a_stranger_cannot_tell_a_machine_from_none(
    host: RunningConsole, bob: Browser, headers: dict[str, str]
) -> None:
    with httpx.Client(base_url=host.url, headers=headers, timeout=20) as stranger:
        for method, path in own_routes(host):
            found = [
                answered(stranger, method, addressed(path, name), name)
                for name in ("demo", "nobody-here")
            ]
            assert found[0] == found[1], path
            assert found[0][0] in (302, 401), path


def answered(stranger: httpx.Client, method: str, path: str, name: str) -> tuple[object, ...]:
    """What tells one answer from another, without the name that was asked for."""
    response = stranger.request(method, path)
    return (
        response.status_code,
        response.text.replace(name, "NAME"),
        response.headers.get("location", "").replace(name, "NAME"),
    )


def test_a_viewer_with_a_valid_form_changes_nothing(host: RunningConsole, bob: Browser) -> None:
    token, page = bob.field("csrf_token"), bob.url
    for method, path in own_routes(host):
        if method != "POST" or path in OF_EVERYBODY:
            continue
        bob.post(addressed(path, "demo"), {"csrf_token": token, "new.name": "mine", "line": "x"})
        assert bob.status == 403, path
        assert "no longer valid" not in bob.text, path
        bob.open(page)
    bob.open("/")
    assert "demo Running" in bob.text
    assert "mine" not in bob.page.links


@pytest.mark.parametrize("name", list(CHANGES))
def test_each_change_is_for_admins(host: RunningConsole, bob: Browser, name: str) -> None:
    token = bob.field("csrf_token")
    bob.post(f"/machines/demo/{name}", {"csrf_token": token})
    assert bob.status == 403
    who = {"operate": "an operator", "administer": "an admin"}[CHANGES[name].right]
    assert f"Only {who} may {CHANGES[name].verb}. Nothing was changed." in bob.text
