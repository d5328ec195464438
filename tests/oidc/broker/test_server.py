"""The socket of a guest: who may open it, what it withstands, and how it ends."""

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from anyio import CancelScope

from fastapi_oidc.broker import guest, server
from tests.oidc.broker.guests import GET, NAME, PATIENCE, Guest
from tests.oidc.broker.rig import TWO_HOURS, another_broker, rigged
from tests.oidc.broker.streams import Stream, is_cut, silent, streaming
from tests.oidc.flows.steps import until


async def test_the_socket_is_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, *to: given.append((os.stat(path).st_ino, *to)))
    async with rigged() as rig:
        path = str(tmp_path / "vsock_8080")
        async with rig.broker.serve(rig.access, path, owner=(1234, 4321)):
            assert given == [(os.stat(path).st_ino, 1234, 4321)]
        found = os.stat(rig.guest.path)
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.getuid())


@pytest.mark.parametrize("link", [os.link, os.symlink])
async def test_the_owner_of_the_folder_gets_no_file_by_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[[Path, str], None]
) -> None:
    """The root of a jail belongs to its user."""
    bind, given = socket.socket.bind, list[object]()
    (others := tmp_path / "another's").touch()

    def replaced(self: socket.socket, path: str) -> None:
        bind(self, path)
        os.unlink(path)
        link(others, path)

    async with rigged() as rig:
        monkeypatch.setattr(socket.socket, "bind", replaced)
        monkeypatch.setattr(os, "chown", lambda *named, **_: given.append(named))
        with pytest.raises(OSError, match="vsock_8080"):
            async with rig.broker.serve(rig.access, tmp_path / "vsock_8080", owner=(1234, 1)):
                raise AssertionError
    assert given == []


@pytest.mark.parametrize("by", ["its end", "a scope"])
async def test_after_the_block_the_socket_is_gone_and_calls_are_cut_and_recorded(
    by: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "POLL_SECONDS", 1000)
    async with rigged() as rig:
        rig.api.answer, program = Stream(), Guest(str(tmp_path / "vsock_8080"))
        other = await rig.broker.give(rig.session, to="m2", routes=[NAME], until=TWO_HOURS)
        with CancelScope() as scope:
            async with rig.broker.serve(other, program.path):
                opened = streaming(program)
                parts = await opened.__aenter__()
                rig.api.answer = silent
                waits = asyncio.create_task(program.get())
                await until(lambda: len(rig.api.received) == 2)
                if by == "a scope":
                    scope.cancel()
                    await asyncio.Event().wait()
        assert {line.status for line in rig.trail if line.code == "broker.withdrawn"} == {200, 0}
        assert (await rig.broker.check(other)).use.calls == 2
        assert await is_cut(parts)
        await opened.__aexit__(None, None, None)
        with pytest.raises(httpx.RemoteProtocolError):
            await waits
        await until(lambda: all(task.done() for task in rig.api.tasks))
        assert os.listdir(tmp_path) == []
    assert "Cancelled" not in caplog.text


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


async def test_the_last_server_of_a_path_has_it(tmp_path: Path) -> None:
    async with rigged() as rig:
        (tmp_path / "notes").write_text("mine")
        with pytest.raises(OSError, match="in use"):
            async with rig.broker.serve(rig.access, tmp_path / "notes"):
                raise AssertionError
        path = str(tmp_path / "vsock_8080")
        with socket.socket(socket.AF_UNIX) as left:  # by a dead process
            left.bind(path)
        _, elsewhere = another_broker(rig)
        async with AsyncExitStack() as later:
            async with rig.broker.serve(rig.access, path):
                await later.enter_async_context(elsewhere.serve(rig.access, path))
            assert (await Guest(path).get()).status_code == 200, "the first has left it alone"
            await elsewhere.withdraw(rig.access)
            assert (await Guest(path).get()).status_code == 401
        assert os.listdir(tmp_path) == ["notes"]


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
        b"GET /events HTTP/1.1",
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


async def test_a_connection_stays_open_longer_than_clients_keep_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = (loop := asyncio.get_running_loop()).time()
    async with rigged() as rig:
        reader, writer = await asyncio.open_unix_connection(rig.guest.path)
        for seconds in (0, 119):
            monkeypatch.setattr(loop, "time", lambda seconds=seconds: began + seconds)
            await asyncio.wait([asyncio.create_task(asyncio.sleep(0))])  # what is due by then
            writer.write(GET)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()
