"""What takes the place of a refresh: one at a time for a session, each by its own means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Code, MemoryRefreshLock, ProviderError
from fastapi_oidc.flows import refresher as refreshing
from fastapi_oidc.flows.refresh_outcomes import Outcome, Postponed, Refused, Renewed
from fastapi_oidc.flows.refresher import Make, Refresher
from fastapi_oidc.once import Turns
from fastapi_oidc.session.keeper import Kept
from tests.oidc.interleaving import Gate
from tests.oidc.world import World, make_world

TASKS = [None, *filter(None, [getattr(asyncio, "eager_task_factory", None)])]
"""The kinds of tasks that event loops of this Python make."""


class Site:
    """A world in which somebody has signed in."""

    def __init__(self, world: World, kept: Kept[Any]) -> None:
        self.world, self.kept = world, kept
        self.refresher: Refresher[Any] = world.oidc.site.refresher

    def begun(self, make: Make[Any]) -> asyncio.Task[Outcome[Any]]:
        return asyncio.create_task(self.refresher.succeed(self.kept, make))


@pytest.fixture
async def site() -> Site:
    return await signed_in()


async def signed_in(**options: Any) -> Site:
    world = make_world(**options)
    browser = await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    return Site(world, found.kept)


async def successor(kept: Kept[Any]) -> Kept[Any]:
    changes = {"generation": kept.session.generation + 1}
    return Kept(kept.session.model_copy(update=changes), kept.reference)


def still_under_way(site: Site) -> Postponed:
    return Postponed(1, site.world.oidc.site.party.clock.now() + 1, "it is still under way")


async def others_have_come() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_failure_is_told_to_whoever_failed_and_the_next_one_makes_its_own(
    site: Site,
) -> None:
    gate = Gate()

    async def failing(current: Kept[Any]) -> Kept[Any]:
        await gate.passed()
        raise LookupError

    first = site.begun(failing)
    await gate.until_reached()
    second = site.begun(successor)
    await others_have_come()
    gate.opened.set()
    with pytest.raises(LookupError):
        await first
    outcome = await second
    assert isinstance(outcome, Renewed)
    assert outcome.kept.session.generation == 1


async def test_whoever_waited_for_another_one_goes_on_from_what_it_made(site: Site) -> None:
    gate, given = Gate(), []

    async def held(current: Kept[Any]) -> Kept[Any]:
        await gate.passed()
        return await successor(current)

    async def noted(current: Kept[Any]) -> Kept[Any]:
        given.append(current.session.generation)
        return await successor(current)

    first = site.begun(held)
    await gate.until_reached()
    second = site.begun(noted)
    await others_have_come()
    gate.opened.set()
    outcomes = await asyncio.gather(first, second)
    assert [
        outcome.kept.session.generation for outcome in outcomes if isinstance(outcome, Renewed)
    ] == [1, 2]
    assert given == [1]


async def test_a_refresh_that_waited_for_a_failure_of_another_kind_is_made(site: Site) -> None:
    gate = Gate()

    async def failing(current: Kept[Any]) -> Kept[Any]:
        await gate.passed()
        raise LookupError

    first = site.begun(failing)
    await gate.until_reached()
    second = asyncio.create_task(site.refresher.renew(site.kept))
    await others_have_come()
    gate.opened.set()
    with pytest.raises(LookupError):
        await first
    assert isinstance(await second, Renewed)


async def unreachable(*about: Any) -> bool:
    raise ProviderError(Code.PROVIDER_UNREACHABLE)


async def mute(*about: Any) -> bool:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("provider", [unreachable, mute])
async def test_a_session_that_ended_meanwhile_is_over_though_its_tokens_cannot_be_given_back(
    site: Site, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "revoked_at_provider", provider)
    monkeypatch.setattr(refreshing, "PATIENCE", 0)
    session = site.kept.session

    async def overtaken(current: Kept[Any]) -> Kept[Any]:
        site.world.oidc.site.party.register.end(session.id, "signed_out", ends=session.expires_at)
        return await successor(current)

    async with asyncio.timeout(10):
        outcome = await site.begun(overtaken)
    assert outcome == Refused(Code.SESSION_SIGNED_OUT, "it ended while it was refreshed")


class Interrupting(MemoryRefreshLock):
    """Calls `then` when the newest state of a session was left in it."""

    then: Callable[[], None]

    def keep(self, name: str, data: bytes, seconds: int, /) -> None:
        super().keep(name, data, seconds)
        if name.startswith("newest."):
            self.then()


async def test_a_session_that_ends_while_others_are_told_of_its_successor_is_over() -> None:
    lock = Interrupting()
    site = await signed_in(refresh_lock=lock)
    session, register = site.kept.session, site.world.oidc.site.party.register
    lock.then = lambda: register.end(session.id, "signed_out", ends=session.expires_at)
    assert await site.refresher.renew(site.kept) == Refused(Code.SESSION_SIGNED_OUT)


async def test_what_is_never_answered_does_not_hold_the_end_of_the_process_up(site: Site) -> None:
    party, gate = site.world.oidc.site.party, Gate()
    impatient = replace(party.policy, provider_timeout=0.0, callback_timeout=0.0)

    async def never(current: Kept[Any]) -> Kept[Any]:
        await gate.passed()
        return await successor(current)

    task = site.begun(never)
    await gate.until_reached()
    site.refresher._party = replace(party, policy=impatient)
    async with asyncio.timeout(10):
        await site.refresher.aclose()
    gate.opened.set()
    await task


async def test_the_answer_of_a_refresh_is_kept_no_longer_than_until_its_successor_is(
    site: Site,
) -> None:
    assert isinstance(await site.refresher.renew(site.kept), Renewed)
    assert len(site.refresher._answers._kept) == 0


async def test_the_tokens_of_a_refused_refresh_are_not_kept(site: Site) -> None:
    site.world.op.edits.put("id_token", lambda said: said | {"sub": "bob"})
    assert isinstance(await site.refresher.renew(site.kept), Refused)
    assert len(site.refresher._answers._kept) == 0


async def test_a_request_waits_for_what_was_begun_only_so_long(site: Site) -> None:
    """For as long as the provider and a callback may take."""
    gate = Gate()

    async def never(current: Kept[Any]) -> Kept[Any]:
        await gate.passed()
        return await successor(current)

    party = site.world.oidc.site.party
    impatient = replace(party.policy, provider_timeout=0.0, callback_timeout=0.0)
    site.refresher._party = replace(party, policy=impatient)
    async with asyncio.timeout(20):
        outcome = await site.refresher.succeed(site.kept, never)
    assert outcome == still_under_way(site)
    site.refresher._party = party
    gate.opened.set()
    await site.refresher.aclose()


async def test_what_was_asked_for_before_a_shutdown_is_put_off_to_the_next_start(
    site: Site,
) -> None:
    site.refresher._turns = turns = Turns(1)
    async with turns.taken():
        request = asyncio.create_task(site.refresher.renew(site.kept))
        await others_have_come()
        closing = asyncio.create_task(site.refresher.aclose())
        await others_have_come()
    await closing
    now = site.world.oidc.site.party.clock.now()
    assert await request == Postponed(1, now + 1, "this process ends")
    assert isinstance(await site.refresher.renew(site.kept), Renewed)


@pytest.mark.parametrize("tasks", TASKS, ids=["usual", "eager"][: len(TASKS)])
async def test_a_run_that_waits_for_nothing_has_its_outcome(site: Site, tasks: Any) -> None:
    asyncio.get_running_loop().set_task_factory(tasks)
    outcome = await site.refresher.succeed(site.kept, successor)
    assert isinstance(outcome, Renewed)
    assert outcome.kept.session.generation == 1
