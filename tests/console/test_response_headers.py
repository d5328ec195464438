"""examples/console/README.md names every header of the console's answers, and they are so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest
from fastapi.openapi.utils import get_openapi

from examples.console.app import create_app
from examples.console.monitors import Monitors
from examples.console.pages import STATIC_PATH
from tests.console.browser import Browser
from tests.console.running import RunningConsole, asked, signed_in

README: Final = Path(__file__).parents[2] / "examples" / "console" / "README.md"
SECTION: Final = README.read_text().split("## Response headers")[1].split("\n## ")[0]
ON_EVERY_ANSWER: Final = ("content-security-policy", "x-content-type-options", "x-frame-options")
COLUMNS: Final = ("cache-control", "vary", "referrer-policy")
OF_THE_SERVER: Final = {"content-length", "content-type", "date", "server", "transfer-encoding"}
NAVIGATION: Final = {"accept": "text/html", "sec-fetch-mode": "navigate"}
NAMES: Final = {
    "{machine}": "demo",
    "{tab}": "devices",
    "{change}": "pause",
    "{path}": "nothing",
    "{program}": "none",
} | {"{version}": STATIC_PATH.rpartition("/")[2]}


def rows() -> Mapping[str, list[str]]:
    """The cells of each row by its answer; the first cell has the routes."""
    lines = [line for line in SECTION.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    return {row[1]: [row[0], *row[2:]] for row in cells}


def routes(answer: str) -> list[str]:
    return re.findall(r"`([A-Z]+ [^`]+)`", rows()[answer][0])


def addressed(route: str) -> tuple[str, str]:
    """The method and the path of a request to `route`."""
    method, _, path = route.partition(" ")
    for name, value in NAMES.items():
        path = path.replace(name, value)
    return method, path


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host) as browser:
        browser.open_until(" up ", "/")
        yield browser


@pytest.fixture
def client(host: RunningConsole, alice: Browser) -> Iterator[httpx.Client]:
    """What alice's browser sends, redirects not followed."""
    own = {"origin": host.url, **NAVIGATION}
    with httpx.Client(base_url=host.url, cookies=alice.cookies, headers=own, timeout=20) as client:
        yield client


@pytest.fixture
def stranger(host: RunningConsole) -> Iterator[httpx.Client]:
    headers = {"origin": host.url, **NAVIGATION}
    with httpx.Client(base_url=host.url, headers=headers, timeout=20) as client:
        yield client


def hold(response: httpx.Response, answer: str) -> None:
    """`response` has the status and the headers of its row, and those of every answer."""
    headers = response.headers
    assert answer.startswith(str(response.status_code)), response.request.url
    policy, others = headers["content-security-policy"], rows()[answer][1:]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert [headers[name] for name in ON_EVERY_ANSWER[1:]] == ["nosniff", "DENY"]
    rest = sorted(set(headers) - {*ON_EVERY_ANSWER, *COLUMNS, *OF_THE_SERVER})
    said = [*(headers.get(name, "-") for name in COLUMNS), ", ".join(rest) or "-"]
    assert said == others, response.request.url


def test_the_table_has_every_route(host: RunningConsole) -> None:
    app = create_app(host.parts.oidc, host.parts.monitors, apis=host.parts.apis)
    described = get_openapi(title="", version="", routes=app.routes)["paths"]
    own = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    assert own - {route for answer in rows() for route in routes(answer)} == set()
    assert len(own) > 15


@pytest.mark.parametrize(
    "answer",
    [
        *("200 page", "200 JSON", "200 file", "200 text", "200 open to all"),
        "200 stream",
        "200 this console's files",
    ],
)
def test_what_is_read(client: httpx.Client, answer: str) -> None:
    assert routes(answer)
    for route in routes(answer):
        # A stream that ends at once: there is nothing to wait for.
        asked = {"seconds": "0"} if answer == "200 stream" else None
        hold(client.request(*addressed(route), params=asked), answer)


def test_what_is_done(client: httpx.Client, alice: Browser, host: RunningConsole) -> None:
    for route in routes("303 done"):
        path = addressed(route)[1]
        alice.open("/new" if path == "/new" else "/machines/demo/console")
        fields = alice.form_of(path) or max((form.fields for form in alice.page.forms), key=len)
        if path == "/images/delete":
            found = host.disk("spare").stat()
            thing = f"{found.st_dev:x}-{found.st_ino:x}"
            fields |= {"place": "disks", "thing": thing, "confirmed": "yes"}
        hold(client.post(path, data=fields | {"new.name": "another", "line": "a"}), "303 done")


def test_what_is_refused(client: httpx.Client) -> None:
    answer = "403 page, of another session's form"
    for route in routes(answer):
        hold(client.request(*addressed(route), data={"csrf_token": "no"}), answer)


def test_what_has_no_file_or_agent(client: httpx.Client, alice: Browser) -> None:
    answer = "409 page, without a file or an agent"
    alice.open("/machines/demo")
    token = {"X-CSRF-Token": alice.field("csrf_token")}
    for route in routes(answer):
        asked = {"place": "disks"} if "upload" in route else None
        hold(client.request(*addressed(route), params=asked, headers=token), answer)


def test_what_is_not_there(client: httpx.Client) -> None:
    for route in routes("404 page"):
        hold(client.request(*addressed(route)), "404 page")


def test_what_strangers_get(stranger: httpx.Client) -> None:
    for route in routes("302 to the login"):
        hold(stranger.request(*addressed(route)), "302 to the login")
    for route in routes("401 page, the session has ended"):
        response = stranger.request(*addressed(route), data={"a": "b"})
        hold(response, "401 page, the session has ended")


def test_metrics_without_a_token(host: RunningConsole) -> None:
    app = create_app(host.parts.oidc, Monitors({}), metrics_token="of-prometheus")
    answer = "401 without the token"
    for route in routes(answer):
        hold(asked(app, addressed(route)[1], {}), answer)


def test_signing_out_everywhere(client: httpx.Client, alice: Browser) -> None:
    form = {"csrf_token": alice.field("csrf_token")}
    for route in routes("302 to the provider"):
        hold(client.request(*addressed(route), data=form), "302 to the provider")
