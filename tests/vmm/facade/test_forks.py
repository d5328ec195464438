"""After a fork each process has its own connection and turn, and leaves the other's alone."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from generated_vmm import VmmClient
from tests.vmm.facade.conftest import Serve
from tests.vmm.forking import echo, echo_of, forked
from tests.vmm.scripted import Wire, answer


class Held:
    """A server whose first answer waits until the test says so."""

    def __init__(self) -> None:
        self.arrived, self.finish = threading.Event(), threading.Event()

    def play(self, wire: Wire) -> None:
        if wire.request():
            if wire.latest.startswith(b"GET /held"):
                self.arrived.set()
                self.finish.wait(10)
            wire.send(answer(200, wire.latest.split(b" ")[1]))
            echo(wire)


@pytest.fixture
def held() -> Iterator[Held]:
    server = Held()
    yield server
    server.finish.set()


def test_a_turn_and_a_connection_that_another_thread_has_are_not_inherited(
    serve: Serve, socket_path: Path, held: Held
) -> None:
    """The parent's call ends its connection, although a child has a copy of it."""
    server, (reading, writing) = serve(held.play), os.pipe()

    def ask_and_wait() -> bytes:
        os.close(writing)
        answered = vm.send(echo_of("/child"))
        os.read(reading, 1)
        return answered

    with VmmClient(socket_path) as vm, ThreadPoolExecutor(1) as threads:
        first = threads.submit(vm.send, echo_of("/held"))
        assert held.arrived.wait(5)
        child = forked(ask_and_wait)
        held.finish.set()
        assert first.result() == b"/held"
        server.settle()
        os.close(writing)
        assert child.result() == b"/child"
        assert vm.send(echo_of("/after")) == b"/after"
