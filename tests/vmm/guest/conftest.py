"""The real agent as a process of this host, and both halves of its client."""

import asyncio
import inspect
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from generated_vmm.guest import AsyncGuest, AsyncGuestPath, AsyncProgram, Guest, agent

Start = Callable[..., Guest]


class Blocking:
    """An object of the async half, called like one of the sync half."""

    def __init__(self, thing: object, runner: asyncio.Runner) -> None:
        self.thing, self.runner = thing, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.thing, name)
        return self._call(found) if inspect.ismethod(found) else found

    def __truediv__(self, name: object) -> Any:
        return Blocking(self.thing / name, self.runner)  # type: ignore[operator]

    def _call(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            value = method(*args, **options)
            if inspect.isasyncgen(value):
                return self._items(value)
            if inspect.iscoroutine(value):
                value = self.runner.run(value)
            ours = isinstance(value, AsyncProgram | AsyncGuestPath)
            return Blocking(value, self.runner) if ours else value

        return call

    def _items(self, items: Any) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(items, None)

        while (item := self.runner.run(following())) is not None:
            yield item


class Agent:
    """The agent's process."""

    def __init__(self, socket_path: Path, **environment: str) -> None:
        self.socket_path, self.environment = socket_path, {**os.environ, **environment}
        self.start()

    def start(self) -> None:
        self.socket_path.unlink(missing_ok=True)
        program = [sys.executable, "-S", agent.__file__, str(self.socket_path)]
        self.process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=self.environment
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"agent: listening\n"

    def stop(self) -> None:
        with self.process:
            self.process.terminate()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Agent]:
    started = Agent(tmp_path / "agent.socket")
    yield started
    started.stop()


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Makes a guest of one half, from the arguments of either."""
    with asyncio.Runner() as runner:

        def start(*args: Any, **options: Any) -> Guest:
            if request.param == "sync":
                return Guest(*args, **options)
            return cast(Guest, Blocking(AsyncGuest(*args, **options), runner))

        yield start


@pytest.fixture
def guest(running: Agent, connect: Start) -> Guest:
    return connect(running.socket_path, port=None)


@pytest.fixture
def sync_guest(running: Agent) -> Iterator[Guest]:
    with Guest(running.socket_path, port=None) as guest:
        yield guest


class Requests(agent.Request):
    """Requests of a host that is there, to an agent of their own."""

    def start(self, name: str, spec: Any) -> agent.Program:
        self.put_programs(name, dict(spec))
        return self.known[name]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    """Programs of this process, without control groups."""
    monkeypatch.setattr(agent, "HOME", "")
    monkeypatch.setattr(Requests, "known", {}, raising=False)
    monkeypatch.setattr(Requests, "held_until", 0.0, raising=False)
    host, guest = socket.socketpair()
    with host, guest:
        yield Requests(guest)
