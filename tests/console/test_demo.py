"""`python -m examples.console` as a process of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from examples import console
from examples.console.middleware import COOKIE, NEEDED
from examples.console.settings import ConsoleSettings
from examples.console.words import VARIABLES
from tests.console.browser import Browser
from tests.console.running import ALICE, processes_of
from tests.forked import Forked

SECONDS = 60


@contextmanager
def demo(**environment: str) -> Iterator[subprocess.Popen[str]]:
    """The demo on free ports; ended at the latest with the block."""
    ports = {"CONSOLE_PORT": "0", "CONSOLE_PROVIDER_PORT": "0"}
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    clean = {name: value for name, value in clean.items() if not name.startswith("OIDC_")}
    process = Forked[str](
        [sys.executable, "-m", "examples.console"],
        env={**clean, **ports, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines_until(process: subprocess.Popen[str], last: str) -> str:
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if last in line:
            break
    return told


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_to_go_and_ends_in_order(signal_number: int) -> None:
    with demo() as process:
        told = lines_until(process, "Stop with")
        assert (
            "Sign in as        alice (admin), carol (operator), bob (viewer); no password" in told
        )
        address = re.search(r"http://127\.0\.0\.1:\d+\S*", told)
        folder = re.search(r"Machines +simulated, until the console ends, in (/\S+)", told)
        assert address
        assert folder
        with Browser(address[0]) as browser:
            browser.home()
            browser.click("AA Alice Admin")
            browser.open_until("demo Running")
            browser.open_until("fresh Not started")
            browser.open("/machines/demo")
            assert "In use" in browser.page.headings
        process.send_signal(signal_number)
        _, errors = process.communicate(timeout=SECONDS)
    assert "Traceback" not in errors
    assert not Path(folder[1]).exists()
    assert [*processes_of(Path(folder[1]))] == []
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"CONSOLE_PORT": "TAKEN"}, ".*TAKEN.* another with CONSOLE_PORT."),
        (
            {"CONSOLE_PROVIDER_PORT": "TAKEN"},
            ".*TAKEN.* another with CONSOLE_PROVIDER_PORT.",
        ),
        (
            {"OIDC_ISSUER": "https://op.example.com"},
            "OIDC_CLIENT_ID: is missing, OIDC_COOKIE_SECRET: is missing, OIDC_BASE_URL: is missing",
        ),
    ],
)
def test_what_cannot_work_is_one_sentence(environment: dict[str, str], why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = {name: value.replace("TAKEN", port) for name, value in environment.items()}
        with demo(**given) as process:
            _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert errors.count("\n") == 1
    assert re.match(f"The console cannot start: {why.replace('TAKEN', port)}", errors)


def test_help_names_every_variable_and_starts_nothing() -> None:
    command = [sys.executable, "-m", "examples.console", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert "Serves the microVM console on 127.0.0.1 until Ctrl-C." in done.stdout
    assert all(name in done.stdout for name in VARIABLES)


# The demo's guests run programs of this host: only who has the printed key gets in


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
        alice.open("/machines/demo/guest", sees="Nothing is isolated.")
        alice.click("Give access")
        alice.click("curl http://calendar.internal/events", sees="HTTP/1.1 200")
        alice.open("/new")
        assert alice.field("new.agent") == "true"


@pytest.mark.parametrize("key", [None, "", "other", "ключ"])
@pytest.mark.parametrize("path", ["/", "/machines/demo/guest", "/auth/login", "/api/v1/machines"])
def test_nobody_gets_in_without_the_key(address: str, path: str, key: str | None) -> None:
    url = httpx.URL(address).join(path)
    cookies = {COOKIE: key} if key and key.isascii() else {}
    for method in ("GET", "POST"):
        params = {} if key is None else {"key": key}
        response = httpx.request(method, url, params=params, cookies=cookies, timeout=SECONDS)
        assert response.status_code == 403
        assert NEEDED in response.text
        assert "set-cookie" not in response.headers


def test_the_key_leaves_the_address_bar_and_no_script_reads_it(address: str) -> None:
    response = httpx.get(address, timeout=SECONDS)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert "httponly" in response.headers["set-cookie"].lower()


def test_the_provider_needs_no_key_to_say_that_somebody_signed_out(address: str) -> None:
    url = httpx.URL(address).join("/auth/backchannel-logout")
    assert httpx.post(url, data={"logout_token": "x"}, timeout=SECONDS).status_code == 400


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


# The list of modules in the console's README


def test_the_readme_has_every_module_and_no_other() -> None:
    folder = Path(console.__file__).parent
    table = (folder / "README.md").read_text().partition("## Where things are")[2]
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert set(re.findall(r"`(\w+\.py)`", table)) == modules
