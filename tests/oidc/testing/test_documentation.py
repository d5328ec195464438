"""docs/testing.md tells the truth, and what `python -m fastapi_oidc.testing` prints works."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from typing import Any, ClassVar, get_args

import httpx
import pytest
from fastapi import Depends, FastAPI, WebSocket

from fastapi_oidc import OIDC, OIDCSettings, testing
from fastapi_oidc.testing import DevClient, sign_in, sign_in_sync
from fastapi_oidc.testing.__main__ import main
from fastapi_oidc.testing.faults import Endpoint, Message
from fastapi_oidc.testing.record import Event
from tests.forked import Forked
from tests.oidc.world import BASE_URL, LOGIN_URL, World, application, make_world

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_the_examples_pass_as_they_stand(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    module = tmp_path / "test_examples.py"
    module.write_text("\n\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module)]
    configuration = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"]
    run = subprocess.run([*command, *configuration], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert re.search(r"^\d\d passed", run.stdout, re.MULTILINE), run.stdout


@pytest.mark.parametrize(
    "name",
    [
        *testing.__all__,
        *(field.name for field in fields(DevClient)),
        *get_args(Endpoint),
        *get_args(Message),
        *(event.__name__ for event in get_args(Event)),
    ],
)
def test_every_name_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


APP_URL = "http://127.0.0.1:8000"


REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is started, and leaves its file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return tmp_path


@contextmanager
def started(*arguments: str, port: str = "0") -> Iterator[list[str]]:
    """The lines that the command prints; it ends with the block."""
    command = [sys.executable, "-m", "fastapi_oidc.testing", "--port", port, *arguments]
    with Forked[str](command, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield [process.stdout.readline().rstrip("\n") for _ in range(9)]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def exported(lines: list[str]) -> dict[str, str]:
    exports = (line.removeprefix("export ") for line in lines if line.startswith("export "))
    return dict(export.split("=", 1) for export in exports)


@asynccontextmanager
async def browser_of_the_application(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that reaches an application with the printed settings."""
    for name, value in exported(lines).items():
        monkeypatch.setenv(name, value)
    oidc = OIDC(OIDCSettings(), **options)
    transport = httpx.ASGITransport(application(oidc, None, {}))
    here = {exported(lines)["OIDC_BASE_URL"]: transport}
    headers = {"Accept": "text/html"}
    async with httpx.AsyncClient(mounts=here, headers=headers, timeout=60) as browser:
        yield browser
    await oidc.aclose()


async def test_the_printed_lines_sign_somebody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--app", "http://localhost:5000/", "--client-id", "mine"]
    with started(*options, "--user", "carol:Carol:carol@example.com:admin,dev") as lines:
        printed = exported(lines)
        assert printed["OIDC_BASE_URL"] == "http://localhost:5000"
        assert printed["OIDC_CLIENT_ID"] == "mine"
        assert "carol" in lines[2]
        async with browser_of_the_application(lines, monkeypatch) as browser:
            answer = await sign_in(browser, "http://localhost:5000/me", user="carol")
    assert answer.json()["sub"] == "carol"
    assert answer.json()["identity"]["email"] == "carol@example.com"


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
def test_nonsense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[0] in capsys.readouterr().err


def key_set(lines: list[str]) -> object:
    return httpx.get(f"{exported(lines)['OIDC_ISSUER']}/jwks").json()


async def test_a_restart_keeps_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ID token is a hint by its signature (RP-Initiated Logout 1.0, 2)."""
    path = folder / ".dev-provider.json"
    async with AsyncExitStack() as stack:
        with started() as first:
            keys = key_set(first)
            application = browser_of_the_application(first, monkeypatch)
            browser = await stack.enter_async_context(application)
            await sign_in(browser, f"{APP_URL}/me", user="alice")
        port = exported(first)["OIDC_ISSUER"].rpartition(":")[2]
        assert first[1] == f"# Keys and secrets are in {path}; without it, they are new."
        assert path.stat().st_mode & 0o777 == 0o600
        with started(port=port) as second:
            assert (exported(second), key_set(second)) == (exported(first), keys)
            page = await browser.post(f"{APP_URL}/auth/logout", follow_redirects=True)
    assert [str(step.url).partition("?")[0] for step in page.history][1:] == [
        f"http://127.0.0.1:{port}/end-session",
        f"{APP_URL}/auth/logged-out",
    ]
    assert str(page.url) == f"{APP_URL}/"
    assert os.listdir(folder) == [path.name]
    path.unlink()
    with started(port=port) as third:
        assert key_set(third) != keys
    for name in ("OIDC_CLIENT_SECRET", "OIDC_COOKIE_SECRET"):
        assert exported(third)[name] not in (exported(first)[name], "")


class Posts(BaseHTTPRequestHandler):
    """Returns 200 to every POST and records its path."""

    paths: ClassVar[list[str]]

    def do_POST(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def an_address_that_records_posts() -> Iterator[tuple[str, list[str]]]:
    Posts.paths = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Posts) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", Posts.paths
        server.shutdown()


@pytest.mark.parametrize(
    ("option", "expected"), [([], []), (["--back-channel-logout"], ["/auth/backchannel-logout"])]
)
async def test_logout_tokens_are_posted_only_if_an_option_asks_for_them(
    option: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most applications begin without the route, and would return 404."""
    with (
        an_address_that_records_posts() as (address, paths),
        started("--app", address, *option) as lines,
    ):
        async with browser_of_the_application(lines, monkeypatch) as browser:
            await sign_in(browser, f"{address}/me", user="alice")
            await browser.post(f"{address}/auth/logout", follow_redirects=True)
    assert paths == expected


def test_the_file_and_the_client_secret_can_be_chosen(folder: Path) -> None:
    chosen = folder / "mine.json"
    for secret in ("chosen-secret-of-at-least-32-bytes", ""):
        option = ["--client-secret", secret] if secret else []
        with started("--secrets", str(chosen), *option) as lines:
            printed = exported(lines)["OIDC_CLIENT_SECRET"]
        assert chosen.name in lines[1]
        saved = json.loads(chosen.read_bytes())["client_secret"]
        assert printed == (secret or saved)
    assert list(folder.iterdir()) == [chosen]


KEYS = {"RS256": ["name", "no key"]}


@pytest.mark.parametrize("content", ["of another program", "[]", json.dumps({"keys": KEYS})])
def test_a_file_of_another_program_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = folder / "other.json"
    path.write_text(content)
    assert main(["--port", "0", "--secrets", str(path)]) == 1
    expected = f"{path} is not a file of this command: choose another with --secrets\n"
    assert capsys.readouterr().err == expected
    assert path.read_text() == content


async def test_an_application_without_the_providers_transport_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_network(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no network", request=request)

    async with make_world(transport=httpx.MockTransport(no_network)).browser() as browser:
        assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 502
    assert "OIDC(..., transport=httpx.ASGITransport(provider.app))" in caplog.text


@pytest.fixture(params=[None, "memory"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param)


@pytest.mark.parametrize("has_lifespan", [True, False])
@pytest.mark.parametrize("url", [LOGIN_URL, "/me"])
def test_a_person_signs_in_and_out(world: World, url: str, has_lifespan: bool) -> None:
    client = world.op.test_client(world.app, base_url=BASE_URL)
    with client if has_lifespan else nullcontext(client) as browser:
        page = sign_in_sync(browser, url, user="bob")
        assert (page.status_code, page.json()["sub"]) == (200, "bob")
        assert browser.get("/me").json()["sub"] == "bob"
        world.time.advance(3600)
        assert browser.get("/me").json()["generation"] == 1
        browser.post("/auth/logout", headers={"origin": BASE_URL})
        assert browser.get("/me").status_code == 401


def test_the_lifespan_is_that_of_the_application(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    world.app.router.routes.clear()
    with world.op.test_client(world.app, base_url=BASE_URL):
        pass
    assert "has no route for: login, callback" in caplog.text


def with_websocket(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.websocket("/ws")
    async def ws(socket: WebSocket, session: Any = Depends(oidc.require_auth)) -> None:
        await socket.accept()
        await socket.send_text(session.sub)
        await socket.close()


@pytest.mark.parametrize("url", ["/ws", "wss://app.test/ws"])
def test_a_websocket_by_its_path_has_the_session(url: str) -> None:
    world = make_world(mount=with_websocket)
    with world.op.test_client(world.app, base_url=BASE_URL) as browser:
        sign_in_sync(browser, LOGIN_URL, user="alice")
        with browser.websocket_connect(url) as socket:
            assert socket.receive_text() == "alice"


async def test_a_client_with_await_that_does_not_reach_the_provider_is_named() -> None:
    world = make_world()
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        with pytest.raises(RuntimeError, match=r"provider\.browser\(app"):
            await sign_in(browser, "/me", user="alice")


@pytest.mark.parametrize("path", ["/missing", "/auth/login?return_to=/missing"])
def test_a_page_that_is_not_there_is_no_such_mistake(path: str, world: World) -> None:
    with world.op.test_client(world.app, base_url=BASE_URL) as browser:
        page: Any = sign_in_sync(browser, path, user="alice")
    assert page.status_code == 404
