"""Examples as a reader starts them: one command, and what it prints."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from tests.forked import Forked

PATIENCE: Final = 60
"""Seconds for a response, and for a program that is told to end."""


@contextmanager
def started(module: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m module` with free ports; ended like by Ctrl-C at the latest with the block."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OIDC_")}
    process = Forked[str](
        [sys.executable, "-m", module],
        env={**clean, "PORT": "0", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def reserved_port() -> socket.socket:
    """A socket at a port that one program after the other may serve, and that nobody else gets."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    """The next `count` lines that the program prints."""
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def new_browser(**options: Any) -> httpx.Client:
    """One that waits for a busy computer."""
    return httpx.Client(timeout=PATIENCE, **options)
