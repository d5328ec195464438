"""The pages about sandboxes, workers and gunicorn, with the processes that they name."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from fastapi_oidc.testing import DevClient, DevProvider, DevUser, sign_in_sync
from tests.oidc.real_op.serving import free_socket
from tests.packaging.built import REPOSITORY
from tests.packaging.pages import blocks, environment, text_of
from tests.packaging.test_task_pages import Served
from tests.redis_server import running_redis

JOB = "import asyncio, sys, worker; print(asyncio.run(worker.report(sys.argv[1])))"

OBSERVED = """
from web import app, queue

@app.get("/queue")
async def first() -> str:
    return await queue.get()
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="setup-") as name:
        monkeypatch.chdir(name)
        yield Path(name)


@pytest.fixture
def redis() -> Iterator[str]:
    with running_redis() as url:
        yield url


def test_each_user_has_a_sandbox(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "firecracker"
    python = shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nexec {python} -m generated_vmm.testing --any-path "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    users = [DevUser("auth0|1", "Alice"), DevUser("bob", "Bob")]
    page = Served("vmm/sandboxes.md", monkeypatch, users)
    names = set()
    for user in users:
        with page.browser() as browser:
            sign_in_sync(browser, "/auth/login", user=user.sub)
            assert browser.put("/sandbox").json()["code"] == "session.csrf"
            token = browser.get("/auth/session").json()["csrf_token"]
            headers = {"X-CSRF-Token": token}
            for _ in range(2):
                assert browser.put("/sandbox", headers=headers).json() == {"state": "Running"}
            [machine] = page.module.machines.all()
            names.add(machine.name)
            assert browser.delete("/sandbox", headers=headers).status_code == 200
            assert page.module.machines.all() == []
    assert len(names) == len(users)


class Server(NamedTuple):
    """A browser at an application of its own process, its environment and its provider."""

    browser: httpx.Client
    environment: dict[str, str]
    provider: DevProvider


@contextmanager
def served(folder: Path, *command: str) -> Iterator[Server]:
    """`command` serves the socket that is in place of `{}`."""
    client = DevClient(client_id="app", any_local_uri=True)
    provider = DevProvider(users=[DevUser("alice", "Alice")], clients=[client])
    with free_socket() as (listener, origin), provider.serve() as issuer:
        paths = {"PYTHONPATH": f"{folder}:{REPOSITORY}", "OIDC_ALLOW_INSECURE_HTTP": "true"}
        variables = os.environ | environment(issuer, origin, **paths)
        number = listener.fileno()
        words = [sys.executable, "-m", *(word.format(number) for word in command)]
        with subprocess.Popen(words, env=variables, pass_fds=[number]) as server:
            try:
                with httpx.Client(base_url=origin, timeout=60) as browser:
                    yield Server(browser, variables, provider)
            finally:
                server.terminate()


def test_a_worker_calls_an_api_in_a_process_of_its_own(folder: Path, redis: str) -> None:
    for code in blocks(text_of("workers.md")):
        code = code.replace("redis://localhost:6379/0", redis)
        (folder / code.split()[1].strip(",")).write_text(code)
    (folder / "observed.py").write_text(OBSERVED)
    with served(folder, "uvicorn", "observed:app", "--fd", "{}") as server:
        job = (folder / "worker.py").read_text()
        url = f"{server.provider.issuer}/userinfo"
        (folder / "worker.py").write_text(job.replace("https://api.example.com/profile", url))
        sign_in_sync(server.browser, "/auth/login", user="alice")
        token = server.browser.get("/auth/session").json()["csrf_token"]
        server.browser.post("/reports", headers={"X-CSRF-Token": token})
        session_id = server.browser.get("/queue").json()
        reports = []
        for _ in range(2):
            command = [sys.executable, "-c", JOB, session_id]
            done = subprocess.run(
                command, env=server.environment, capture_output=True, text=True, check=True
            )
            reports.append(done.stdout.strip())
            server.browser.post("/auth/logout", headers={"X-CSRF-Token": token})
    assert json.loads(reports[0])["sub"] == "alice"
    assert reports[1] == "not done: session.required"


def test_gunicorn_serves_with_several_workers(folder: Path) -> None:
    documented = text_of("deployment.md")
    (folder / "main.py").write_text(blocks(documented)[0])
    [line] = re.findall(r"^(gunicorn .*?) +#", documented, re.MULTILINE)
    with served(folder, *line.split(), "-b", "fd://{}") as server:
        sign_in_sync(server.browser, "/auth/login", user="alice")
        for _ in range(12):
            answer = server.browser.get("/auth/session", headers={"Connection": "close"})
            assert answer.json()["sub"] == "alice"
