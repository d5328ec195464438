"""What happens when a process that refreshes a session dies or stands still.

What each state of the record permits is in `tests/oidc/session/test_records.py`.
"""

from __future__ import annotations

import pytest

from tests.oidc.machine.breakages import killed_after_the_response, killed_with_the_token_of_an_api
from tests.oidc.machine.ledger import Browser
from tests.oidc.machine.processes import Fault, Mode
from tests.oidc.machine.world import MachineWorld, Story, play_story
from tests.oidc.virtual_time import virtual_monotonic as virtual_monotonic

pytestmark = pytest.mark.usefixtures("virtual_monotonic")

RECORDS, STORE = Mode(records=True), Mode(store=True)
MODES = pytest.mark.parametrize("mode", [RECORDS, STORE], ids=["cookie", "store"])
LEASE = 70.0
"""Seconds for which a process owns a refresh record: `provider_timeout` and a long response."""


def after_fault(name: str, *faults: Fault | None, presented: int, seconds: float = 25) -> Story:
    """A process asks for `name`, fails so and dies; `seconds` later another one goes on."""

    def story(world: MachineWorld, alice: Browser) -> None:
        before = world.ledger.tokens_presented
        world.fail(0, name, *faults)
        world.begin("me", alice, 0)
        world.kill(0)
        world.wait(seconds)
        assert world.asked("me", alice, 1) == 200
        assert world.ledger.tokens_presented == before + presented

    return story


@MODES
def test_process_that_stood_still_after_the_response_is_fenced_off(mode: Mode) -> None:
    """Others have gone on from the response, and refreshed once more."""

    def story(world: MachineWorld, alice: Browser) -> None:
        other = world.copy(alice)
        world.fail(0, "advance", Fault.PAUSED)
        world.begin("me", alice, 0)
        for _ in range(2):
            world.wait(LEASE)
            assert world.asked("me", other, 1) == 200
        generation = world.last_document["generation"]
        world.open_gate()
        for browser in (alice, other):
            assert world.asked("me", browser, 0) == 200
            assert world.last_document["generation"] == generation

    play_story(mode, story)


@MODES
def test_process_dies_before_it_presents_the_token(mode: Mode) -> None:
    def story(world: MachineWorld, alice: Browser) -> None:
        before = world.ledger.tokens_presented
        world.fail(0, "take", Fault.PAUSED)
        world.begin("me", alice, 0)
        world.kill(0)
        world.wait(30)
        assert world.asked("me", alice, 1) == 503, "the first process may still present the token"
        assert world.ledger.tokens_presented == before
        world.wait(LEASE)
        assert world.asked("me", alice, 1) == 200
        assert world.ledger.tokens_presented == before + 1

    play_story(mode, story)


@MODES
@pytest.mark.parametrize("is_used", [False, True])
def test_process_dies_before_the_response_comes(mode: Mode, is_used: bool) -> None:
    """The session is lost if the provider used the token, and only then."""

    def story(world: MachineWorld, alice: Browser) -> None:
        before = world.ledger.tokens_presented
        world.fail(0, "token", Fault.LATE_REPLY if is_used else Fault.LATE)
        world.begin("me", alice, 0)
        world.kill(0)
        world.wait(LEASE - 20)
        assert world.asked("me", alice, 1) == 503, "a response can still come"
        assert world.ledger.tokens_presented == before + 1
        world.wait(20)
        assert world.asked("me", alice, 1) == (401 if is_used else 200)
        assert world.ledger.tokens_presented == before + 2

    play_story(mode, story)


@MODES
def test_process_dies_after_it_kept_the_response(mode: Mode) -> None:
    """Another process makes the next session of the response that the record has."""
    play_story(mode, after_fault("advance", Fault.PAUSED, presented=1))
    play_story(mode, killed_after_the_response)


def test_process_dies_after_it_stored_the_next_session() -> None:
    """The record does not know of the next session yet; another process makes it again."""
    play_story(STORE, after_fault("replace", Fault.PAUSED, presented=1, seconds=5))


def test_process_dies_before_the_record_has_the_next_session() -> None:
    """The browser has it; another process makes it again for an old cookie."""

    def story(world: MachineWorld, alice: Browser) -> None:
        presented, old = world.ledger.tokens_presented, world.copy(alice)
        world.fail(0, "advance", None, Fault.DOWN)
        assert world.asked("me", alice, 0) == 200
        world.kill(0)
        world.wait(25)
        assert world.asked("me", old, 1) == 200
        assert world.ledger.tokens_presented == presented + 1

    play_story(RECORDS, story)


@MODES
@pytest.mark.parametrize("before", [(), (None,)], ids=["answered", "done"])
def test_lost_reply_of_the_records_is_asked_for_again(mode: Mode, before: tuple[None, ...]) -> None:
    def story(world: MachineWorld, alice: Browser) -> None:
        presented, old = world.ledger.tokens_presented, world.copy(alice)
        world.fail(0, "advance", *before, Fault.REPLY_LOST)
        assert world.asked("me", alice, 0) == 200
        world.wait(5)
        assert world.asked("me", old, 1) == 200
        assert world.ledger.tokens_presented == presented + 1

    play_story(mode, story)


def test_process_dies_before_it_exchanges_a_token() -> None:
    """The exchange may be repeated, so others wait no longer than twice `provider_timeout`."""

    def story(world: MachineWorld, alice: Browser) -> None:
        world.begin("me", alice, 0)  # with tokens for the next half minute
        began = world.loop.seconds
        world.fail(0, "take", Fault.PAUSED)
        world.begin("call mail", alice, 0)
        world.kill(0)
        assert world.asked("call mail", alice, 0) == 200
        assert 19 < world.loop.seconds - began < 22

    play_story(STORE, story)


@MODES
def test_process_dies_with_the_token_of_an_api(mode: Mode) -> None:
    """The next one goes on with the session, and asks for the API's token again."""

    def story(world: MachineWorld, alice: Browser) -> None:
        before = world.ledger.tokens_presented
        killed_with_the_token_of_an_api(world, alice)
        assert world.asked("call calendar", alice, 0) == 200
        assert world.ledger.tokens_presented == before + 4

    play_story(mode, story)


def test_process_dies_between_the_end_in_the_record_and_the_revocation() -> None:
    def story(world: MachineWorld, alice: Browser) -> None:
        world.begin("me", alice, 0)  # with tokens for the next half minute
        copy, before = world.copy(alice), world.ledger.tokens_presented
        world.fail(0, "revoke", Fault.LATE)
        world.begin("logout", alice, 0)
        world.kill(0)
        assert world.asked("me", copy, 1) == 200, "its access token is valid"
        world.wait(60)
        assert world.asked("me", copy, 1) == 401
        assert world.ledger.tokens_presented == before

    play_story(Mode(records=True, revocations=True), story)
