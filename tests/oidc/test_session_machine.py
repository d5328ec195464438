"""Processes, browsers, a provider and stores at random, with faults: what has to be true stays so."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Final

import pytest
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

from tests.oidc.machine import Fault, MachineWorld, Mode
from tests.oidc.virtual_time import virtual_monotonic as virtual_monotonic

pytestmark = pytest.mark.usefixtures("virtual_monotonic")

EXAMPLES: Final = int(os.environ.get("MACHINE_EXAMPLES", "20"))
"""Examples of each mode; more of them by `make machine`."""

STEPS: Final = 25
MOST_BROWSERS: Final = 5
MODES: Final = {
    "cookie": Mode(processes=1),
    "records": Mode(records=True),
    "records and revocations": Mode(records=True, revocations=True),
    "idle timeout": Mode(records=True, revocations=True, idle_timeout=3600),
    "store": Mode(store=True),
}

browsers, processes = st.integers(0, MOST_BROWSERS - 1), st.integers(0, 1)
users = st.sampled_from(["alice", "bob"])
faults = [
    *(("records", fault) for fault in Fault),
    *((kind, fault) for kind in ("revocations", "rows", "token") for fault in Fault),
    ("provider", Fault.DOWN),
]


class SessionMachine(RuleBasedStateMachine):
    mode: ClassVar[Mode]

    def __init__(self) -> None:
        super().__init__()
        self.world = MachineWorld(self.mode)

    @initialize()
    def sign_in(self) -> None:
        for browser in self.world.browsers:
            self.world.begin("login", browser, 0)

    @rule(browser=browsers, process=processes, kind=st.sampled_from(["me", "me", "long"]))
    def ask(self, browser: int, process: int, kind: str) -> None:
        self._begin(kind, browser, process)

    @rule(browser=browsers, process=processes, kind=st.sampled_from(["login", "logout"]))
    def change(self, browser: int, process: int, kind: str) -> None:
        self._begin(kind, browser, process)

    @rule(what=st.sampled_from(["refresh", "ask"]))
    def order(self, what: str) -> None:
        self.world.order(what)

    @rule(browser=browsers)
    def bring_an_old_cookie_later(self, browser: int) -> None:
        world = self.world
        if len(world.browsers) < MOST_BROWSERS:
            like = world.browsers[browser % len(world.browsers)]
            world.browsers.append(world.browser(like.user, like))

    @precondition(lambda self: self.mode.ends_everywhere)
    @rule(user=users, process=processes)
    def revoke(self, user: str, process: int) -> None:
        self.world.revoke(user, process % self.mode.processes)

    @precondition(lambda self: self.mode.ends_everywhere)
    @rule(user=users)
    def log_out_at_provider(self, user: str) -> None:
        self.world.log_out_at_provider(user)

    @rule(process=processes, fault=st.sampled_from(faults), times=st.sampled_from([1, 1, 2, 9]))
    def fail(self, process: int, fault: tuple[str, Fault], times: int) -> None:
        kind, what = fault
        if what is Fault.PAUSED and kind != "records":
            return
        self.world.processes[process % self.mode.processes].faults[kind].extend([what] * times)

    @rule()
    def repair(self) -> None:
        for process in self.world.processes:
            process.faults.clear()

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

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0, 35.0, 65.0, 80.0, 700.0, 3000.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def holds(self) -> None:
        self.world.require()

    def teardown(self) -> None:
        try:
            self._recover()
        finally:
            self.world.end()

    def _begin(self, kind: str, browser: int, process: int) -> None:
        world = self.world
        chosen = world.browsers[browser % len(world.browsers)]
        world.begin(kind, chosen, process % self.mode.processes)

    def _recover(self) -> None:
        """After the faults every browser whose session goes on is signed in, by every process."""
        world = self.world
        self.repair()
        world.open_gate()
        world.order("refresh")
        for _ in range(2):
            world.wait(200)
            for browser in world.browsers:
                for number in range(self.mode.processes):
                    world.begin("me", browser, number)
                    assert not world.pending, "no answer although nothing fails"
                    assert world.last_status != 503, "no session although nothing fails"
            world.require()


def play(mode: Mode, examples: int, **options: Any) -> None:
    machine = type("Machine", (SessionMachine,), {"mode": mode, "TestCase": None})
    chosen = settings(max_examples=examples, stateful_step_count=STEPS, deadline=None, **options)
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_what_has_to_be_true_stays_true(mode: Mode) -> None:
    play(mode, EXAMPLES)
