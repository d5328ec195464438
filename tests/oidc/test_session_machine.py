"""Processes, browsers, a provider and stores at random, and what is true whatever fails."""

from __future__ import annotations

import os
from itertools import product
from typing import Any, ClassVar, Final

import pytest
from hypothesis import Phase as Generation
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.oidc.breakages import BREAKAGES, MODES, Breakage
from tests.oidc.machine import Fault, MachineWorld, Mode
from tests.oidc.virtual_time import virtual_monotonic as virtual_monotonic

pytestmark = pytest.mark.usefixtures("virtual_monotonic")

EXAMPLES: Final = int(os.environ.get("MACHINE_EXAMPLES", "20"))
"""Examples of each mode; more of them by `make machine`."""

STEPS: Final = 12
MOST_BROWSERS: Final = 5
browsers, processes = st.integers(0, MOST_BROWSERS - 1), st.integers(0, 1)
users = st.sampled_from(["alice", "bob"])
kinds = st.sampled_from(["me", "me", "me", "long", "login", "logout"])
# The access token is good for 60 seconds, and refreshed in its last 30.
pauses = st.sampled_from([0.0, 35.0, 35.0, 80.0])
faults = st.sampled_from(
    [
        *[("none", Fault.DOWN)] * 2,
        *product(["take", "advance"], Fault),
        *product(
            ["token", "token", "replace"], [fault for fault in Fault if fault is not Fault.PAUSED]
        ),
        *product(["provider", "revoke", "delete"], [Fault.DOWN, Fault.LATE]),
        ("find", Fault.DOWN),
    ]
)
endings = st.sampled_from(["go on", "go on", "kill", "wait", "ask elsewhere"])


class SessionMachine(RuleBasedStateMachine):
    mode: ClassVar[Mode]

    def __init__(self) -> None:
        super().__init__()
        self.world = MachineWorld(self.mode)

    @initialize()
    def sign_in(self) -> None:
        for browser in self.world.browsers:
            self.world.begin("login", browser, 0)

    @rule(
        browser=browsers,
        process=processes,
        kind=kinds,
        fault=faults,
        later=pauses,
        ending=endings,
    )
    def ask(
        self,
        browser: int,
        process: int,
        kind: str,
        fault: tuple[str, Fault],
        later: float,
        ending: str,
    ) -> None:
        """A request for which something fails, and what happens meanwhile."""
        self.world.wait(later)
        self.world.fail(process % self.mode.processes, *fault)
        self._begin(kind, browser, process)
        match ending:
            case "kill":
                self.kill(process)
            case "wait":
                self.world.wait(80.0)
            case "ask elsewhere":
                self._begin("me", browser, process + 1)

    @rule(process=processes, browser=browsers)
    def ask_at_once(self, process: int, browser: int) -> None:
        self._begin("me", browser, process)

    @rule(later=pauses)
    def ask_everywhere(self, later: float) -> None:
        """Every browser asks every process."""
        self.world.wait(later)
        for browser in range(len(self.world.browsers)):
            for process in range(self.mode.processes):
                self._begin("me", browser, process)

    @rule(browser=browsers, process=processes, kind=st.sampled_from(["login", "logout", "logout"]))
    def change(self, browser: int, process: int, kind: str) -> None:
        self._begin(kind, browser, process)

    @rule(what=st.sampled_from(["refresh", "ask"]))
    def order(self, what: str) -> None:
        self.world.order(what)

    @rule(browser=browsers)
    def bring_an_old_cookie_later(self, browser: int) -> None:
        world = self.world
        if len(world.browsers) < MOST_BROWSERS:
            world.copy(world.browsers[browser % len(world.browsers)])

    @precondition(lambda self: self.mode.ends_everywhere)
    @rule(user=users, process=processes)
    def revoke(self, user: str, process: int) -> None:
        self.world.revoke(user, process % self.mode.processes)

    @precondition(lambda self: self.mode.ends_everywhere)
    @rule(user=users)
    def log_out_at_provider(self, user: str) -> None:
        self.world.log_out_at_provider(user)

    @rule(process=processes, name=st.sampled_from(["take", "advance", "replace", "token"]))
    def break_down(self, process: int, name: str) -> None:
        """Something cannot be reached until it is repaired."""
        self.world.fail(process % self.mode.processes, name, *[Fault.DOWN] * 99)

    @rule()
    def repair(self) -> None:
        self.world.repair()

    @rule()
    def open_the_gate(self) -> None:
        self.world.open_gate()

    @rule(process=processes)
    def kill(self, process: int) -> None:
        self.world.kill(process % self.mode.processes)

    @rule(number=st.integers(0, 9))
    def disconnect(self, number: int) -> None:
        if self.world.pending:
            self.world.pending[number % len(self.world.pending)].task.cancel()
        self.world.wait(0.001)

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0, 65.0, 80.0, 80.0, 700.0, 3000.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def holds(self) -> None:
        self.world.require()

    def teardown(self) -> None:
        try:
            self.world.recover()
        finally:
            self.world.end()

    def _begin(self, kind: str, browser: int, process: int) -> None:
        world = self.world
        chosen = world.browsers[browser % len(world.browsers)]
        world.begin(kind, chosen, process % self.mode.processes)


def play(mode: Mode, examples: int, **options: Any) -> None:
    machine = type("Machine", (SessionMachine,), {"mode": mode, "TestCase": None})
    chosen = settings(max_examples=examples, stateful_step_count=STEPS, deadline=None, **options)
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_what_has_to_be_true_stays_true(mode: Mode) -> None:
    play(mode, EXAMPLES)


@pytest.mark.parametrize("name", ["take what is held", "forget what ended here"])
def test_the_machine_finds_what_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BREAKAGES[name]
    broken.breakage(monkeypatch)
    with pytest.raises(AssertionError, match=broken.found):
        play(broken.mode, 300, phases=[Generation.generate], database=None)


@pytest.mark.parametrize("is_broken", [False, True], ids=["as it is", "broken"])
@pytest.mark.parametrize("name", BREAKAGES)
def test_a_breakage_breaks_a_promise(
    name: str, is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = BREAKAGES[name]
    if not is_broken:
        told(broken)
        return
    broken.breakage(monkeypatch)
    with pytest.raises(AssertionError, match=broken.found):
        told(broken)


def told(broken: Breakage) -> None:
    """The story, with a session whose tokens are due, and what has to be true after it."""
    world = MachineWorld(broken.mode)
    try:
        for browser in world.browsers:
            world.begin("login", browser, 0)
        world.begin("me", world.browsers[0], broken.mode.processes - 1)
        world.wait(35)
        broken.story(world, world.browsers[0])
        world.require()
        world.recover()
    finally:
        world.end()
