"""`python -m fastapi_oidc.testing`: what it prints makes the README's application run."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.testing import sign_in
from fastapi_oidc.testing.__main__ import main

APP_URL = "http://127.0.0.1:8000"


@contextmanager
def started(*arguments: str) -> Iterator[list[str]]:
    """The lines that the command prints; it ends with the block."""
    command = [sys.executable, "-m", "fastapi_oidc.testing", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield [process.stdout.readline().rstrip("\n") for _ in range(8)]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def exported(lines: list[str]) -> dict[str, str]:
    exports = (line.removeprefix("export ") for line in lines if line.startswith("export "))
    return dict(export.split("=", 1) for export in exports)


async def test_the_printed_lines_sign_somebody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with started("--user", "carol:Carol:carol@example.com:admin,dev") as lines:
        for name, value in exported(lines).items():
            monkeypatch.setenv(name, value)
        oidc = OIDC(OIDCSettings())
        app = FastAPI()
        app.add_middleware(OIDCMiddleware, oidc=oidc)
        app.include_router(oidc.router, prefix="/auth")

        @app.get("/me")
        async def me(
            session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
        ) -> StandardIdentity:
            return session.identity

        here = {APP_URL: httpx.ASGITransport(app)}
        async with httpx.AsyncClient(mounts=here, headers={"Accept": "text/html"}) as browser:
            answer = await sign_in(browser, f"{APP_URL}/me", user="carol")
        await oidc.aclose()
    assert answer.json()["sub"] == "carol"
    assert answer.json()["email"] == "carol@example.com"


def test_the_options_of_the_command_are_those_of_the_client() -> None:
    with started("--app", "http://localhost:5000/", "--client-id", "mine") as lines:
        printed = exported(lines)
    assert printed["OIDC_BASE_URL"] == "http://localhost:5000"
    assert printed["OIDC_CLIENT_ID"] == "mine"
    assert "alice, bob" in lines[1]
    assert set(printed) <= {f"OIDC_{name.upper()}" for name in OIDCSettings.model_fields}


def test_a_port_in_use_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 1
    assert capsys.readouterr().err == f"port {port}: {os.strerror(errno.EADDRINUSE)}\n"


def test_without_a_server_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["--port", "0"]) == 1
    needed = "DevProvider on a socket needs: pip install 'fastapi-oidc-vmm[testing]'\n"
    assert capsys.readouterr().err == needed


@pytest.mark.parametrize("arguments", [["--app", "example.com"], ["--user", ":Nobody"]])
def test_what_makes_no_sense_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[0] in capsys.readouterr().err
