"""After a fork each process has its own connection and turn, and leaves the other's alone."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from generated_vmm import AsyncVmmClient, VmmClient, VmmConnectionError
from tests.vmm.facade.conftest import Run, Serve, result_of
from tests.vmm.forking import echo, echo_of, forked, open_sockets
from tests.vmm.scripted import Wire, answer
from tests.vmm.transport.test_time import one_signal

T = TypeVar("T")


@pytest.fixture(params=[VmmClient, AsyncVmmClient])
def run(request: pytest.FixtureRequest, socket_path: Path) -> Iterator[Run]:
    """Calls through one client, of each kind, each async one in an event loop of its own.

    A process must not go on in the loop of its parent: the two would share its epoll.
    """
    client = request.param(socket_path)

    def run(call: Callable[[VmmClient], T], *, timeout: float | None = 5.0) -> T:
        return result_of(lambda: call(client.with_options(timeout=timeout)))

    yield run
    result_of(client.close)


def test_a_child_that_closes_the_client_closes_nothing_of_its_parent(
    run: Run, serve: Serve
) -> None:
    server = serve(echo)
    run(lambda vm: vm.send(echo_of("/before")))
    forked(lambda: run(lambda vm: vm.close())).result()
    assert run(lambda vm: vm.send(echo_of("/after"))) == b"/after"
    assert len(server.connections) == 1


def test_a_child_holds_no_copy_of_the_connection(run: Run, serve: Serve) -> None:
    serve(echo)
    before = open_sockets()
    run(lambda vm: vm.send(echo_of("/before")))
    ours_and_the_servers = open_sockets() - before
    assert len(ours_and_the_servers) >= 2
    left = forked(open_sockets).result()
    assert isinstance(left, set)
    assert len(ours_and_the_servers - left) == 1


def test_a_grandchild_starts_over_too(run: Run, serve: Serve) -> None:
    server = serve(echo)

    def call(path: str) -> bytes:
        return run(lambda vm: vm.send(echo_of(path)))

    def child() -> object:
        return call("/child"), forked(lambda: call("/grandchild")).result(), call("/child/again")

    assert call("/parent") == b"/parent"
    assert forked(child).result() == (b"/child", b"/grandchild", b"/child/again")
    assert call("/parent/again") == b"/parent/again"
    assert len(server.connections) == 3


def test_a_client_that_was_closed_before_stays_closed(run: Run) -> None:
    run(lambda vm: vm.close())

    def child() -> str:
        with pytest.raises(VmmConnectionError) as caught:
            run(lambda vm: vm.pause())
        return str(caught.value)

    assert "the client is closed" in str(forked(child).result())


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


def test_a_turn_that_another_thread_has_is_not_inherited(
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
