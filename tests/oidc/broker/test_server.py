"""The socket of a guest: who may open it, what it withstands, and how it ends."""

import asyncio
import errno
import os
import socket
import stat
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from anyio import CancelScope

from fastapi_oidc import ConfigurationError
from fastapi_oidc.broker import calls, server
from tests.oidc.broker.guests import NAME, PATIENCE, Guest
from tests.oidc.broker.rig import TWO_HOURS, another_broker, rigged
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.flows.steps import until

GET = f"GET /events HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode()


async def test_the_socket_is_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, *to: given.append((os.stat(path).st_ino, *to)))
    async with rigged() as rig:
        path = str(tmp_path / "vsock_8080")
        async with rig.broker.serve(rig.access, path, owner=(1234, 4321)):
            assert given == [(os.stat(path).st_ino, 1234, 4321)]
        found = os.stat(rig.guest.path)
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.getuid())


async def test_a_link_that_the_owner_of_the_folder_puts_there_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root of a jail belongs to its user, who must not get another file by this."""
    bind, given = socket.socket.bind, list[object]()
    (others := tmp_path / "another's").touch(mode=0o644)

    def replaced(self: socket.socket, path: str) -> None:
        bind(self, path)
        os.unlink(path)
        os.symlink(others, path)

    async with rigged() as rig:
        monkeypatch.setattr(socket.socket, "bind", replaced)
        monkeypatch.setattr(os, "chown", lambda *named: given.append(named))
        with pytest.raises(OSError, match="vsock_8080"):
            async with rig.broker.serve(rig.access, str(tmp_path / "vsock_8080"), owner=(1234, 1)):
                raise AssertionError
    assert (stat.S_IMODE(others.stat().st_mode), given) == (0o644, [])


async def test_the_socket_is_gone_after_the_block_and_calls_are_cut(tmp_path: Path) -> None:
    async with rigged() as rig:
        rig.api.answer, path = Stream(), str(tmp_path / "vsock_8080")
        async with rig.broker.serve(rig.access, path):
            opened = streaming(Guest(path))
            parts = await opened.__aenter__()
        assert await is_cut(parts)
        await opened.__aexit__(None, None, None)
        assert os.listdir(tmp_path) == []


async def test_a_block_that_a_scope_cancels_leaves_nothing_open_and_records_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "POLL_SECONDS", 1000)
    async with rigged() as rig:
        guest = Guest(str(tmp_path / "vsock_8080"))
        other = await rig.broker.give(rig.session, to="m2", routes=[NAME], until=TWO_HOURS)
        with CancelScope() as scope:
            async with rig.broker.serve(other, guest.path):
                assert (await guest.get()).status_code == 200
                rig.api.answer = Stream()
                opened = streaming(guest)
                parts = await opened.__aenter__()
                scope.cancel()
                await asyncio.Event().wait()
        assert (await rig.broker.check(other)).use.calls == 2
        await until(lambda: all(task.done() for task in rig.api.tasks))
        assert await is_cut(parts)
        await opened.__aexit__(None, None, None)


async def test_a_block_that_is_cancelled_while_it_begins_serves_nobody(tmp_path: Path) -> None:
    async with rigged() as rig:
        path = str(tmp_path / "vsock_8080")

        async def serves() -> None:
            async with rig.broker.serve(rig.access, path):
                raise AssertionError

        serving = asyncio.create_task(serves())
        await asyncio.sleep(0)
        assert os.listdir(tmp_path) == ["vsock_8080"]
        serving.cancel()
        await asyncio.wait([serving], timeout=PATIENCE)
        assert serving.cancelled()
        async with rig.broker.serve(rig.access, path):
            assert (await Guest(path).get()).status_code == 200


async def test_a_socket_that_a_dead_process_has_left_is_replaced(tmp_path: Path) -> None:
    async with rigged() as rig:
        path = str(tmp_path / "vsock_8080")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        async with rig.broker.serve(rig.access, path):
            assert (await Guest(path).get()).status_code == 200


async def test_what_is_another_ones_is_left_alone(tmp_path: Path) -> None:
    async with rigged() as rig:
        (tmp_path / "notes").write_text("mine")
        _, elsewhere = another_broker(rig)
        for path in (rig.guest.path, str(tmp_path / "notes")):
            with pytest.raises(OSError, match=f"in use: {path!r}"):
                async with elsewhere.serve(rig.access, path):
                    raise AssertionError
        assert (await rig.guest.get()).status_code == 200
        assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("moment", ["before it removes", "before it serves"])
async def test_of_two_that_replace_a_dead_socket_one_serves_and_the_other_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with rigged() as rig:
        path, told = str(tmp_path / "vsock_8080"), list[str | None]()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        owner: Any = os if moment == "before it removes" else asyncio.get_running_loop()
        name = "unlink" if owner is os else "create_unix_server"
        step = getattr(owner, name)

        def another_first(*arguments: Any, **named: Any) -> Any:
            monkeypatch.undo()
            with pytest.raises(OSError, match=f"{path!r}") as error:
                server._listener(path, None)  # what another process does
            told.append(error.value.strerror)
            return step(*arguments, **named)

        monkeypatch.setattr(owner, name, another_first)
        async with rig.broker.serve(rig.access, path):
            assert (await Guest(path).get()).status_code == 200
        assert told in (
            ["another process makes a socket in this folder"],
            [os.strerror(errno.EADDRINUSE)],
        )


async def test_a_server_that_accepts_no_connections_is_not_dead(tmp_path: Path) -> None:
    async with rigged() as rig:
        path = str(tmp_path / "vsock_8080")
        with ExitStack() as stack:
            stopped = stack.enter_context(socket.socket(socket.AF_UNIX))
            stopped.bind(path)
            stopped.listen(0)
            with suppress(BlockingIOError):
                while True:
                    waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                    waiting.setblocking(False)
                    waiting.connect(path)
            stack.callback(socket.setdefaulttimeout, None)
            socket.setdefaulttimeout(PATIENCE)  # a probe that waits fails
            with pytest.raises(OSError, match="in use"):
                async with rig.broker.serve(rig.access, path):
                    raise AssertionError


async def test_an_address_is_no_path() -> None:
    async with rigged() as rig:
        with pytest.raises(ConfigurationError, match="of a unix socket, not 127"):
            async with rig.broker.serve(rig.access, "127.0.0.1:8080"):
                raise AssertionError


async def test_connections_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    async with rigged() as rig:
        held = [await asyncio.open_unix_connection(rig.guest.path) for _ in range(3)]
        reader, writer = await asyncio.open_unix_connection(rig.guest.path)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        for _, other in [*held, (reader, writer)]:
            other.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET /events HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /events HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused(sent: bytes) -> None:
    async with rigged() as rig:
        answer = await rig.guest.writes(sent + b"\r\n\r\n")
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        assert not rig.api.received
        assert (await rig.guest.get()).status_code == 200


async def test_a_guest_that_goes_away_harms_nothing() -> None:
    async with rigged() as rig:
        for sent in (GET, GET * 20, GET[:30], b"POST" + GET[3:-2] + b"Content-Length: 9\r\n\r\nab"):
            _, writer = await asyncio.open_unix_connection(rig.guest.path)
            writer.write(sent)
            writer.transport.abort()
        assert (await rig.guest.get()).status_code == 200


async def test_any_other_server_of_asgi_serves_a_guest_too(tmp_path: Path) -> None:
    async with rigged() as rig:
        path = str(tmp_path / "uvicorn")
        config = uvicorn.Config(
            rig.broker.app(rig.access), uds=path, http="httptools", ws="none", log_config=None
        )
        running = uvicorn.Server(config)
        task = asyncio.create_task(running.serve())
        await until(lambda: running.started)
        assert (await Guest(path).call("POST", content=b"lunch")).status_code == 200
        await rig.broker.withdraw(rig.access)
        assert (await Guest(path).get()).status_code == 401
        running.should_exit = True
        await task


async def test_a_websocket_is_not_accepted() -> None:
    async with rigged() as rig:
        await rig.broker.app(rig.access)({"type": "websocket"}, None, None)  # type: ignore[arg-type]


async def test_an_access_that_is_served_outside_of_a_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with rigged() as rig:
        path = tmp_path / "vsock_8081"

        @rig.world.app.get("/lost")
        async def lost() -> None:
            rig.broker.serve(rig.access, path)

        @rig.world.app.get("/held")
        async def held() -> bool:
            async with AsyncExitStack() as stack:
                block = rig.broker.serve(rig.access, path)
                await stack.enter_async_context(block)
                return path.exists()

        assert (await rig.browser.get("/lost")).status_code == 500
        assert "lost: broker.serve was called without `async with`. It has don" in caplog.text
        assert (await rig.browser.get("/held")).json() is True
        with pytest.warns(RuntimeWarning, match="was called without `async with`"):
            rig.broker.serve(rig.access, path)
