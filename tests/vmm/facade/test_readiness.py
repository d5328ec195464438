"""`wait_until_ready` bridges the time until a monitor answers, and no more."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import (
    AsyncVmmClient,
    VmmApiError,
    VmmClient,
    VmmConnectionError,
    VmmTimeoutError,
)
from tests.vmm.facade.conftest import Run, Serve, result_of
from tests.vmm.scripted import ScriptedServer, Wire, answer

INFO = answer(200, b'{"app_name":"a","id":"b","state":"Not started","vmm_version":"1"}')


def test_a_monitor_that_listens_is_ready_at_once(run_each: Run, serve: Serve) -> None:
    server = serve(lambda wire: wire.answer_all(INFO))
    assert run_each(lambda vm: vm.wait_until_ready()).state == "Not started"
    assert server.sent() == [("GET /", None)]


def test_a_monitor_that_starts_later_is_waited_for(run_each: Run, socket_path: Path) -> None:
    socket_path.touch()
    started: list[ScriptedServer] = []

    def start() -> None:
        time.sleep(0.1)
        socket_path.unlink()
        started.append(ScriptedServer(socket_path, lambda wire: wire.answer_all(INFO)))

    starter = threading.Thread(target=start)
    starter.start()
    assert run_each(lambda vm: vm.wait_until_ready(5)).state == "Not started"
    starter.join()
    started[0].stop()


def test_a_connection_that_closes_is_tried_again(run_each: Run, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        if len(server.connections) > 3:
            wire.answer_all(INFO)

    server = serve(play)
    assert run_each(lambda vm: vm.wait_until_ready(5)).state == "Not started"


def test_no_monitor_is_a_timeout(run_each: Run, socket_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(VmmTimeoutError, match=r"not ready within 0.1 s, at last: .*No such file"):
        run_each(lambda vm: vm.wait_until_ready(0.1))
    assert time.monotonic() - started < 5


def test_a_monitor_that_never_answers_is_a_timeout(run_each: Run, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        while wire.receive():
            pass

    serve(play)
    started = time.monotonic()
    with pytest.raises(VmmTimeoutError):
        run_each(lambda vm: vm.wait_until_ready(0.1), timeout=None)
    assert time.monotonic() - started < 5


def test_a_refusal_is_not_waited_out(run_each: Run, serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(answer(400, b'{"fault_message":"no"}')))
    with pytest.raises(VmmApiError):
        run_each(lambda vm: vm.wait_until_ready(5))


@pytest.mark.parametrize("timeout", ["3", 0, -1, float("nan")])
def test_what_is_no_time_is_refused(run_each: Run, timeout: Any) -> None:
    with pytest.raises(ValueError, match="seconds"):
        run_each(lambda vm: vm.wait_until_ready(timeout))


IMPOSSIBLE = {
    "too long": ("/tmp/" + "x" * 103, r"the path has 108 bytes, that of a unix socket at most 107"),
    "a NUL": ("/tmp/a\0b", "the path has a NUL character"),
    "half a surrogate pair": ("/tmp/\ud800", "the path has characters that no file name can have"),
}


@pytest.mark.parametrize("client", [VmmClient, AsyncVmmClient])
@pytest.mark.parametrize(("path", "text"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_path_that_no_socket_can_have_is_not_waited_for(
    client: type[Any], path: str, text: str
) -> None:
    began = time.monotonic()
    with pytest.raises(VmmConnectionError, match=f"no connection: {text}; nothing was sent") as got:
        result_of(lambda: client(path).wait_until_ready(30))
    assert got.value.permanent
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("client", [VmmClient, AsyncVmmClient])
def test_a_closed_client_is_not_waited_for(client: type[Any], socket_path: Path) -> None:
    vm = client(socket_path)
    result_of(vm.close)
    began = time.monotonic()
    with pytest.raises(VmmConnectionError, match="the client is closed") as got:
        result_of(lambda: vm.wait_until_ready(30))
    assert got.value.permanent
    assert time.monotonic() - began < 5


def test_the_longest_path_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    path = folder / ("y" * (107 - len(str(folder)) - 1))
    folder.mkdir()
    server = ScriptedServer(path, lambda wire: wire.answer_all(INFO))
    with VmmClient(path) as vm:
        assert vm.wait_until_ready(5).state == "Not started"
    server.stop()
