"""The calls of a monitor that are compared: every client makes each, over a socket that answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tools.benchmarks.vmm import call_costs
from tools.benchmarks.vmm_calls import METHODS
from tools.benchmarks.vmm_node import NAME as NODE
from tools.benchmarks.vmm_node import PROGRAM, node
from tools.benchmarks.vmm_server import ANSWER, BODY, DONE, fixed_answer_servers


@pytest.fixture(scope="module")
def path() -> Iterator[str]:
    with fixed_answer_servers(1) as (path,):
        yield path


@pytest.mark.parametrize("method", METHODS)
def test_every_client_makes_each_call(method: str, path: str) -> None:
    figures = call_costs(method, path, rounds=2, calls=2)
    ours_and_peers = {"bare socket", "http.client", "VmmClient", "AsyncVmmClient", "aiohttp"}
    assert ours_and_peers < set(figures)
    assert (NODE in figures) == bool(PROGRAM)
    for cost in figures.values():
        assert len(cost.wall) == len(cost.cpu) == 2
        assert all(microseconds > 0 for microseconds in cost.wall)


def test_a_call_is_answered_once_however_it_comes(path: str) -> None:
    head = b"PUT /machine-config HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        for part in (head, BODY[:10], BODY[10:]):
            connection.sendall(part)
        assert connection.recv(len(DONE), socket.MSG_WAITALL) == DONE
        connection.sendall(b"GET /machine-config HTTP/1.1\r\n\r\n")
        assert connection.recv(len(ANSWER), socket.MSG_WAITALL) == ANSWER


def test_without_node_there_is_no_such_case(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("tools.benchmarks.vmm_node.PROGRAM", None)
    with node("GET", path) as cases:
        assert not cases
