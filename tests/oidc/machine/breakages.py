"""Code that is broken on purpose, and for each breakage a story in which it breaks a promise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from fastapi_oidc import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.flows.local_sessions import LocalSessions, TokenAnswer
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.grants import grants
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.session import records
from fastapi_oidc.session.record_hold import RecordHold
from fastapi_oidc.session.records import Phase, RefreshRecord, Take
from tests.oidc.machine.ledger import Browser
from tests.oidc.machine.processes import RESOURCES, Fault, Mode
from tests.oidc.machine.world import MachineWorld, Story

MODES: Final = {
    "cookie": Mode(processes=1),
    "records": Mode(records=True),
    "records and revocations": Mode(records=True, revocations=True),
    "idle timeout, DPoP": Mode(records=True, revocations=True, idle_timeout=3600, dpop=True),
    "store": Mode(store=True),
}


class Breakage(NamedTuple):
    """How the code is broken, the mode and the story that show it, and what is found."""

    breakage: Callable[[pytest.MonkeyPatch], None]
    mode: Mode
    story: Story
    found: str


def advance_for_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "_is_owned", lambda record, change: True)


def refreshed_while_signing_out_elsewhere(world: MachineWorld, alice: Browser) -> None:
    old = world.copy(alice)
    world.fail(0, "provider", Fault.LATE)
    world.begin("me", old, 0)
    world.fail(1, "provider", Fault.DOWN, Fault.DOWN)  # so that the token is not revoked
    world.begin("logout", alice, 1)
    world.wait(50)
    world.begin("me", old, 0)


def lose_answers(patch: pytest.MonkeyPatch) -> None:
    async def answered(self: RecordHold, data: bytes) -> None: ...

    patch.setattr(RecordHold, "answered", answered)


def killed_after_the_response(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "provider", Fault.LATE)
    world.begin("me", alice, 0)
    world.kill(0)
    world.wait(80)
    world.begin("me", alice, 1)


def take_what_has_ended(patch: pytest.MonkeyPatch) -> None:
    taken = records.taken

    def taken_anyway(record: RefreshRecord, *rest: Any) -> RefreshRecord:
        is_over = record.phase is Phase.ENDED
        return taken(replace(record, phase=Phase.IDLE) if is_over else record, *rest)

    patch.setattr(records, "taken", taken_anyway)


def old_cookie_after_signing_out(world: MachineWorld, alice: Browser) -> None:
    old = world.copy(alice)
    world.fail(0, "provider", Fault.DOWN)  # so that the token is not revoked
    world.begin("logout", alice, 0)
    world.begin("me", old, world.mode.processes - 1)


def take_what_is_held(patch: pytest.MonkeyPatch) -> None:
    taken = records.taken

    def taken_anyway(record: RefreshRecord, *rest: Any) -> RefreshRecord:
        return taken(replace(record, held_until=0.0), *rest)

    patch.setattr(records, "taken", taken_anyway)


def believe_any_deadline(patch: pytest.MonkeyPatch) -> None:
    taken = records.taken

    def taken_by_deadline(record: RefreshRecord, take: Take, now: float) -> RefreshRecord:
        after = taken(record, take, now)
        return replace(after, held_until=record.held_until) if after.owner != take.owner else after

    patch.setattr(records, "taken", taken_by_deadline)


def clock_that_is_set_back(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "take", Fault.REPLY_LOST)
    world.begin("me", alice, 0)
    world.kill(0)
    world.set_back_clock_of_stores(1500)


def asked_everywhere_at_once(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "token", Fault.LATE)
    for number in range(world.mode.processes):
        world.begin("me", alice, number)


def refresh_all_as_one(patch: pytest.MonkeyPatch) -> None:
    outcome, outcomes = RefreshCoordinator._outcome, list[Any]()

    async def first_outcome(self: Any, stored: Any, make: Any) -> Any:
        outcomes.append(await outcome(self, stored, make))
        return outcomes[0]

    patch.setattr(RefreshCoordinator, "_outcome", first_outcome)


def two_persons_at_once(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "token", Fault.LATE)
    for browser in world.browsers:
        world.begin("me", browser, 0)


def store_any_generation(patch: pytest.MonkeyPatch) -> None:
    async def replace_any(self: Any, id: str, session: Any) -> bool:
        before = self._rows.get(id)
        if before is not None:
            row = self._row(session, before.user)
            self._rows.set(id, row, expires_at=session.expires_at)
        return before is not None

    patch.setattr(MemorySessionStore, "replace", replace_any)


def row_that_is_stored_late(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "replace", Fault.LATE)
    world.begin("me", alice, 0)
    for _ in range(2):
        world.wait(35)
        world.begin("me", alice, 0)
    world.open_gate()
    world.kill(0)


def present_after_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordHold, "age", 0.0)


def process_that_stands_still(world: MachineWorld, alice: Browser) -> None:
    world.fail(0, "take", Fault.PAUSED)
    world.begin("me", alice, 0)
    world.wait(80)
    world.begin("me", alice, 1)
    world.open_gate()


def forget_what_ended_here(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalSessions, "end", lambda *args, **options: None)
    patch.setattr(records, "end_reason_in", lambda record: None)


def ignore_revocations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryRevocationStore, "reason", lambda self, session: None)


def old_cookie_that_is_not_refreshed(world: MachineWorld, alice: Browser) -> None:
    world.begin("me", alice, 0)  # with tokens for the next half minute
    old_cookie_after_signing_out(world, alice)


def await_the_provider_for_ever(patch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def unlimited(seconds: float, **details: object) -> AsyncIterator[None]:
        yield

    for module in ("http", "provider"):
        patch.setattr(f"fastapi_oidc.provider.{module}.deadline", unlimited)


def provider_that_is_silent(world: MachineWorld, alice: Browser) -> None:
    world.fail(1, "provider", Fault.LATE)
    world.begin("login", alice, 1)
    world.wait(700)


def one_token_for_all_apis(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "record_id", lambda session_id, api: f"{session_id}/any")


def two_apis(world: MachineWorld, alice: Browser) -> None:
    for api in RESOURCES:
        world.begin(f"call {api}", alice, 0)


def one_token_for_all_persons(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "record_id", lambda session_id, api: f"any/{api.key()}")


def two_persons_at_one_api(world: MachineWorld, alice: Browser) -> None:
    for browser in world.browsers:
        world.begin("call mail", browser, 0)


def forget_for_which_api(patch: pytest.MonkeyPatch) -> None:
    encode = TokenAnswer.encode
    patch.setattr(TokenAnswer, "encode", lambda answer: encode(replace(answer, api="")))


def killed_with_the_token_of_an_api(world: MachineWorld, alice: Browser) -> None:
    world.begin("me", alice, 0)  # with tokens for the next half minute
    world.fail(0, "advance", Fault.PAUSED)
    world.wait(15)
    world.begin("call calendar", alice, 0)
    world.kill(0)
    world.wait(22)
    world.begin("call itself", alice, 0)


def prove_with_another_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DPoPKey, "from_text", lambda text: DPoPKey.new())


def an_api_is_called(world: MachineWorld, alice: Browser) -> None:
    world.begin("call mail", alice, 1)


_RECORDS, _ALL = MODES["records"], MODES["records and revocations"]
_DPOP = MODES["idle timeout, DPoP"]
BREAKAGES: Final = {
    each.breakage.__name__.replace("_", " "): each
    for each in (
        Breakage(
            advance_for_anybody,
            _RECORDS,
            refreshed_while_signing_out_elsewhere,
            "had ended was refreshed",
        ),
        Breakage(lose_answers, _RECORDS, killed_after_the_response, "session was lost"),
        Breakage(
            take_what_has_ended, _RECORDS, old_cookie_after_signing_out, "ended was refreshed"
        ),
        Breakage(take_what_is_held, _RECORDS, asked_everywhere_at_once, "presented again"),
        Breakage(believe_any_deadline, _RECORDS, clock_that_is_set_back, "although nothing fails"),
        Breakage(refresh_all_as_one, _RECORDS, two_persons_at_once, "somebody else"),
        Breakage(store_any_generation, MODES["store"], row_that_is_stored_late, "no answer"),
        Breakage(present_after_a_pause, _RECORDS, process_that_stands_still, "presented again"),
        Breakage(
            forget_what_ended_here,
            MODES["cookie"],
            old_cookie_that_is_not_refreshed,
            "ended was accepted",
        ),
        Breakage(ignore_revocations, _ALL, old_cookie_that_is_not_refreshed, "ended was accepted"),
        Breakage(one_token_for_all_apis, _RECORDS, two_apis, "a token for another"),
        Breakage(
            one_token_for_all_persons, _RECORDS, two_persons_at_one_api, "token of somebody else"
        ),
        Breakage(
            forget_for_which_api, _RECORDS, killed_with_the_token_of_an_api, "a token for another"
        ),
        Breakage(prove_with_another_key, _DPOP, an_api_is_called, "proof by another key"),
        Breakage(await_the_provider_for_ever, _RECORDS, provider_that_is_silent, "no answer after"),
    )
}
