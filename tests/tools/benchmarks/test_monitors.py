"""Every client makes each call and reads the whole response."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="a peer: the dependency group bench")

from tools.benchmarks.monitor_servers import BODY, RESPONSE, fixed_response_server, is_whole
from tools.benchmarks.monitors import METHODS, bare_socket_with_guarantees, call_costs


@pytest.mark.parametrize("method", METHODS)
def test_every_client_makes_each_call(method: str) -> None:
    with fixed_response_server() as path:
        measured = call_costs(method, path, rounds=2, calls=2)
    assert len(measured) == 8
    assert all(len(cost.rounds) == 2 for cost in measured.values())


def test_a_response_is_whole_with_its_body() -> None:
    assert is_whole(RESPONSE)
    assert not is_whole(RESPONSE[:-1])
    assert not is_whole(RESPONSE[: -len(BODY) - 1])


def test_the_bare_socket_has_the_guarantees_of_our_client(tmp_path: Path) -> None:
    path = str(tmp_path / "api.sock")
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(path)
        listener.listen()
        call = bare_socket_with_guarantees("GET", path, stack)
        monitor, _ = listener.accept()
        monitor.close()
        with pytest.raises(ConnectionResetError):
            call()
