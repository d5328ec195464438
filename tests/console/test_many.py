"""Several machines at once, several monitors of other programs, and a long list."""

import asyncio
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.console.changes import CHANGES
from examples.console.history import Sample
from examples.console.host import Host
from examples.console.hosted import HostedMonitor
from generated_vmm import API_VERSION
from generated_vmm.machines import Definition
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.records import now
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser, create
from tests.console.running import ALICE, BOB, RunningConsole, running_console, signed_in


@pytest.fixture(scope="module")
def three(host: RunningConsole) -> RunningConsole:
    with signed_in(host) as alice:
        alice.open_until("demo Running", "/")
        for name in ("one", "two"):
            create(alice, name)
    return host


@pytest.fixture
def alice(three: RunningConsole) -> Iterator[Browser]:
    with signed_in(three) as browser:
        yield browser


def bulk(person: Browser, change: str, *names: str) -> None:
    person.open("/")
    fields = {"csrf_token": person.field("csrf_token"), "change": change, "confirmed": "yes"}
    person.post("/bulk", {**fields, "machine": list(names)})


def test_each_of_the_chosen_machines_is_told(alice: Browser) -> None:
    bulk(alice, "pause", "one", "two", "nobody")
    assert "one: The machine is paused." in alice.text
    assert "two: The machine is paused." in alice.text
    assert "nobody: There is no such machine." in alice.text
    bulk(alice, "pause", "one", "demo")
    assert "one: " in alice.text
    assert "one: The machine is paused." not in alice.text
    assert "demo: The machine is paused." in alice.text
    bulk(alice, "resume", "one", "two", "demo", "one")
    assert alice.text.count("one: ") == 1, "each machine is changed once"
    assert alice.text.count(CHANGES["resume"].done) == 3


def test_what_asks_for_one_asks_for_many_without_script(
    alice: Browser, three: RunningConsole
) -> None:
    alice.open("/")
    token = alice.field("csrf_token")
    alice.post("/bulk", {"csrf_token": token, "change": "stop", "machine": "one"})
    assert "Stop one?" in alice.text
    alice.click("Yes: ", sees="one: ")
    alice.post("/bulk", {"csrf_token": token, "change": "delete", "machine": "two"})
    assert alice.status == 422


def test_a_viewer_changes_none_of_them(three: RunningConsole) -> None:
    with signed_in(three, BOB) as bob:
        bob.open("/")
        assert "The chosen machines" not in bob.text
        bulk(bob, "pause", "two")
        assert bob.status == 403
        bob.open("/machines/two", sees="two Running")


# Several monitors: each with its state, none slowed down by another


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A console of a monitor that works, one that is gone and one that never answers."""
    sockets = {name: str(tmp_path / f"{name}.socket") for name in ("web", "gone", "silent")}
    with ExitStack() as stack:
        stack.enter_context(SimulatedMonitor(sockets["web"]))
        silent = stack.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(sockets["silent"])
        silent.listen()
        console = stack.enter_context(running_console(sockets))
        yield stack.enter_context(signed_in(console))


def test_each_has_its_state_and_its_page(browser: Browser) -> None:
    assert browser.path == "/"
    for told in ("web Not started", "gone No answer", "silent No answer"):
        assert told in browser.text
    assert browser.ask("/states").json()["order"] == ["web", "gone", "silent"]
    browser.open(browser.page.links["web"], sees=f"Firecracker {API_VERSION}")
    browser.open("/machines/silent", sees="The monitor took too long to respond.")


def test_one_that_never_answers_does_not_hold_the_list_up(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("examples.console.monitors.LOOK_SECONDS", 3600.0)
    browser.home()
    assert browser.status == 200


# A list of 200 machines: what a viewer gets after the first page


MACHINES = 200
MOST_BYTES = 20_000


class Long:
    """A host with machines that seem to run, without their monitors."""

    def __init__(self, host: Host) -> None:
        self._host, self._records = host, host.machines._store.machines
        self._ids = asyncio.run(self._made())
        for number in range(MACHINES):
            self._put(number, "Running")

    async def _made(self) -> list[str]:
        create = self._host.machines.create
        return [(await create(f"machine-{n}", Definition())).id for n in range(MACHINES)]

    def _put(self, number: int, state: str) -> None:
        id = self._ids[number]
        made = self._host.machines.get(id).record
        self._records.put(id, made.model_copy(update={"should_be": state, "started_at": now()}))

    def change(self, state: str) -> None:
        """Gives one machine another state, and all of them other figures."""
        self._put(7, state)
        for one in self._host.hosted:
            figures = {name: random.uniform(0, 1e6) for name in ("processor", "memory")}
            one.history._samples.append(Sample(time.monotonic(), figures))

    def remove(self) -> None:
        for id in self._ids:
            (self._records.path(id) / "machine.json").unlink()  # the console removes what is left


@pytest.fixture
def long(host: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> Iterator[Long]:
    async def figures(self: HostedMonitor) -> dict[str, float]:
        self.last_state = "Running"
        return {}

    async def running(self: AsyncHeld) -> None:
        """See `AsyncHeld._find`."""

    monkeypatch.setattr(HostedMonitor, "_read_figures", figures)
    monkeypatch.setattr(AsyncHeld, "_find", running)
    monkeypatch.setattr(AsyncHeld, "is_up", property(lambda _: True))
    found = host.parts.monitors
    assert isinstance(found, Host)
    made = Long(found)
    yield made
    made.remove()


@pytest.mark.parametrize("person", [ALICE, BOB])
def test_a_viewer_of_200_machines_gets_only_what_has_changed(
    host: RunningConsole, long: Long, person: str
) -> None:
    with signed_in(host, person) as browser:
        browser.open_until(f"machine-{MACHINES - 1} Running", "/")
        assert browser.has_button("Stop machine-7") == (person == ALICE)
        first = browser.ask("/states", at="").json()
        assert len(first["rows"]) >= MACHINES
        at = first["at"]
        for state in ("Paused", "Running") * 5:
            long.change(state)
            answer = browser.ask("/states", at=at)
            assert len(answer.content) <= MOST_BYTES
            found = answer.json()
            at = found["at"]
            assert [state in row for row in found["rows"].values()] == [True]
            assert list(found["rows"]) == ["machine-7"]
            assert len(found["figures"]) >= MACHINES
            assert len(found["order"]) >= MACHINES
        nothing = browser.ask("/states", at=at).json()
        assert nothing["rows"] == nothing["figures"] == {}
