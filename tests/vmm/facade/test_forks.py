"""After a fork each process has its own connection and turn, and leaves the other's alone."""

import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from generated_vmm import VmmClient, VmmConnectionError
from tests.vmm.facade.conftest import Serve
from tests.vmm.forking import echo, echo_of, forked, open_sockets
from tests.vmm.scripted import Wire, answer
from tests.vmm.transport.test_time import one_signal


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
    serve(held.play)
    others = open_sockets()
    with VmmClient(socket_path) as vm, ThreadPoolExecutor(1) as threads:
        first = threads.submit(vm.send, echo_of("/held"))
        assert held.arrived.wait(5)
        sockets = open_sockets() - others
        child = forked(lambda: (len(sockets - open_sockets()), vm.send(echo_of("/child"))))
        assert child.result() == (1, b"/child")
        held.finish.set()
        assert first.result() == b"/held"
        assert vm.send(echo_of("/after")) == b"/after"


def test_a_fork_in_the_middle_of_a_call_leaves_the_answer_to_the_parent(
    serve: Serve, socket_path: Path, held: Held
) -> None:
    """A signal handler forks, and both processes return into the same call."""
    serve(held.play)
    children: list[int] = []

    def fork(*_: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            children.append(os.fork())
        held.finish.set()

    vm = VmmClient(socket_path)
    with one_signal(held.arrived, fork):
        try:
            answered = vm.send(echo_of("/held"))
        except VmmConnectionError as error:
            os._exit(7 if children == [0] and "connection lost" in str(error) else 8)
        if children == [0]:
            os._exit(9)
    assert answered == b"/held"
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
    assert vm.send(echo_of("/after")) == b"/after"
    vm.close()
