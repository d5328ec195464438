"""`python -m examples.console` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from examples.console.words import VARIABLES
from tests.console.browser import Browser
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


def processes_with(argument: str) -> list[str]:
    """The processes of this host that have the argument in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if argument.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


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
        folder = re.search(r"simulated, until the console ends, in (/\S+)", told)
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
    assert processes_with(folder[1]) == []
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("CONSOLE_PORT", "Choose another with CONSOLE_PORT."),
        ("CONSOLE_PROVIDER_PORT", "Choose another with CONSOLE_PROVIDER_PORT."),
    ],
)
def test_a_taken_port_is_one_sentence(variable: str, sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with demo(**{variable: port}) as process:
            _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert errors.count("\n") == 1
    assert errors.startswith("The console cannot start: ")
    assert port in errors
    assert sentence in errors


def test_a_provider_without_a_client_is_one_sentence() -> None:
    with demo(OIDC_ISSUER="https://op.example.com") as process:
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    missing = ("OIDC_CLIENT_ID", "OIDC_COOKIE_SECRET", "OIDC_BASE_URL")
    sentence = ", ".join(f"{variable}: is missing" for variable in missing)
    assert errors.startswith(f"The console cannot start: {sentence}")
    assert errors.count("\n") == 1


def test_help_names_every_variable_and_starts_nothing() -> None:
    command = [sys.executable, "-m", "examples.console", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert "Serves the microVM console on 127.0.0.1 until Ctrl-C." in done.stdout
    assert all(name in done.stdout for name in VARIABLES)
