"""Processes, browsers, a provider and stores at random, and what is true whatever fails."""

import os
from collections.abc import Callable
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
    rule,
    run_state_machine_as_test,
)

from fastapi_oidc.provider.http import PROVIDER_TIMEOUT
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.machine.breakages import BREAKAGES, MODES
from tests.oidc.machine.ledger import Browser
from tests.oidc.machine.processes import RESOURCES, Fault, Mode
from tests.oidc.machine.world import MachineWorld, play_story

EXAMPLES: Final = int(os.environ.get("MACHINE_EXAMPLES", "8"))
"""Examples of each mode; `make machine EXAMPLES=5000` plays more."""

MOST_EXAMPLES: Final = 100
"""Within so many the machine finds what is broken."""

STEPS: Final = 12
MOST_BROWSERS: Final = 5
browsers, processes = st.integers(0, MOST_BROWSERS - 1), st.integers(0, 1)
apis = [f"{kind} {api}" for kind in ("call", "job") for api in ("itself", *RESOURCES)]
kinds = st.sampled_from(["me"] * 6 + ["long", "login", "logout"] * 2 + ["silent", *apis])
# The access token is good for 60 seconds, and refreshed in its last 30.
pauses = st.sampled_from([0.0, 35.0, 35.0, 80.0])
faults = st.sampled_from(
    [
        ("none", Fault.DOWN),
        *product(["take", "record", "finish"], Fault),
        *product(["token"], [fault for fault in Fault if fault is not Fault.PAUSED]),
        *product(["provider", "revoke", "end", "write", "look"], [Fault.DOWN, Fault.LATE]),
        *product(["find", "list"], [Fault.DOWN]),
    ]
)
endings = st.sampled_from(["go on", "kill", "wait", "ask elsewhere", "ask elsewhere"])
SHARED: Final = ["cookie, store of endings", "store"]
CLOCK_ERRORS: Final = (0.0, -60.0, 60.0, -1500.0, 200.0)
"""Seconds by which a clock is wrong. A process whose clock is ahead by the 300 seconds for which an
ID token is good ends the sessions that it refreshes."""
EVENTS: Final = [
    "ask everywhere", "ask everywhere", "refresh", "is still signed in", "copy", "copy", "revoke",
    "log out at provider", "break down", "repair", "open gate", "kill", "disconnect",
    "set clock", "set back clock of stores",
]  # fmt: skip


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
        browser=browsers, process=processes, kind=kinds, fault=faults, later=pauses, ending=endings
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
                self.world.kill(process % self.mode.processes)
            case "wait":
                self.world.wait(80.0)
            case "ask elsewhere":
                self._begin("me", browser, process + 1)

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0, 80.0, 700.0, 3000.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(event=st.sampled_from(EVENTS), browser=browsers, process=processes)
    def happen(self, event: str, browser: int, process: int) -> None:
        world, number = self.world, process % self.mode.processes
        chosen = world.browsers[browser % len(world.browsers)]
        match event:
            case "ask everywhere":
                for each, other in product(range(len(world.browsers)), range(2)):
                    self._begin("me", each, other)
            case "refresh" | "is still signed in":
                world.order("refresh" if event == "refresh" else "ask")
            case "copy" if len(world.browsers) < MOST_BROWSERS:
                world.copy(chosen)
            case "revoke" if self.mode.is_shared:
                world.revoke(chosen.user, number)
            case "log out at provider" if self.mode.is_shared:
                world.log_out_at_provider(chosen.user)
            case "break down":
                name = ("take", "record", "finish", "end", "find")[browser]
                world.fail(number, name, *[Fault.DOWN] * 99)
            case "repair":
                world.repair()
            case "open gate":
                world.open_gate()
            case "kill":
                world.kill(number)
            case "set clock":
                world.set_clock(number, CLOCK_ERRORS[browser])
            case "set back clock of stores":
                world.set_back_clock_of_stores((1, 30, 60, 600, 1500)[browser])
            case "disconnect" if world.pending:
                world.pending[browser % len(world.pending)].task.cancel()
                world.wait(0.001)

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


def test_the_machine_finds_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BREAKAGES["refresh all as one"]
    broken.breakage(monkeypatch)
    with pytest.raises(AssertionError, match=broken.found):
        play(broken.mode, MOST_EXAMPLES, phases=[Generation.generate], database=None)


@pytest.mark.parametrize("is_broken", [False, True], ids=["as it is", "broken"])
@pytest.mark.parametrize("name", BREAKAGES)
def test_a_breakage_breaks_a_promise(
    name: str, is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = BREAKAGES[name]
    if not is_broken:
        play_story(broken.mode, broken.story)
        return
    broken.breakage(monkeypatch)
    with pytest.raises(AssertionError, match=broken.found):
        play_story(broken.mode, broken.story)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("stops", [MachineWorld.kill, MachineWorld.pause])
@pytest.mark.parametrize(
    ("step", "fault"),
    [
        *product(["find", "take", "record", "finish"], [Fault.LATE, Fault.PAUSED]),
        *product(["token", "provider"], [Fault.LATE, Fault.LATE_REPLY]),
    ],
)
def test_another_process_goes_on_when_one_dies_or_stands_still_at_a_step_of_a_refresh(
    step: str, fault: Fault, stops: Callable[[MachineWorld, int], None], name: str
) -> None:
    """The session is lost only where the response was, and no token is presented twice."""

    def story(world: MachineWorld, alice: Browser) -> None:
        world.wait(30)
        world.fail(0, step, fault)
        world.begin("me", alice, 0)
        assert not world.processes[0].faults[step], "the refresh has come to this step"
        stops(world, 0)
        began = world.loop.seconds
        is_lost = (step, fault) in (("token", Fault.LATE_REPLY), ("record", Fault.LATE))
        assert world.asked("me", alice, 1) == (401 if is_lost else 200)
        assert world.loop.seconds - began < LEASE_SECONDS + 4
        world.wait(80)
        assert world.asked("me", alice, 1) == (401 if is_lost else 200)

    play_story(MODES[name], story)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.parametrize(
    ("step", "fault"),
    [
        *product(["take", "token", "record", "provider", "finish"], [Fault.LATE_REPLY]),
        ("token", Fault.LATE),
    ],
)
def test_a_sign_out_at_any_step_of_a_refresh_wins(
    step: str, fault: Fault, process: int, name: str
) -> None:
    """Also if the step was done, and the reply that says so comes after the sign-out."""

    def story(world: MachineWorld, alice: Browser) -> None:
        old = world.copy(alice)
        world.wait(30)
        world.fail(0, step, fault)
        world.begin("me", old, 0)
        assert not world.processes[0].faults[step], "the refresh has come to this step"
        world.begin("logout", alice, process)
        revoked = len(world.op.record.of(TokenRevoked))
        world.open_gate()
        world.wait(80)
        if (step, fault) == ("token", Fault.LATE_REPLY):
            assert len(world.op.record.of(TokenRevoked)) == revoked + 1, "those of the reply"
        assert [world.asked("me", old, each) for each in (0, 1)] == [401, 401]

    play_story(MODES[name], story)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends"])
def test_a_response_that_the_store_could_not_take_is_written_as_soon_as_it_can(
    ends: bool, name: str
) -> None:
    """Without it another process would present the token again."""

    def story(world: MachineWorld, alice: Browser) -> None:
        world.wait(30)
        world.fail(0, "record", *[Fault.DOWN] * 99)
        refused = world.begin("me", alice, 0)
        assert refused.task.result().status_code == 503, "it does not wait for a store"
        if ends:
            world.spawn(world.processes[0].oidc.aclose())
        world.repair()
        began = world.loop.seconds
        assert world.asked("me", alice, 1) == 200
        assert world.loop.seconds - began < 2

    play_story(MODES[name], story)


@pytest.mark.parametrize("name", SHARED)
def test_a_response_that_comes_later_than_the_provider_may_take_is_not_lost(name: str) -> None:
    def story(world: MachineWorld, alice: Browser) -> None:
        world.fail(0, "token", Fault.LATE_REPLY)
        world.begin("me", alice, 0)
        world.wait(4 * PROVIDER_TIMEOUT)
        world.open_gate()
        assert [world.asked("me", alice, each) for each in (0, 1)] == [200, 200]

    play_story(MODES[name], story)
