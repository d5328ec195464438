"""Each refresh token is presented once, and its answer kept until a successor is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Code, OIDCSession, ProviderError, SessionError
from fastapi_oidc.errors import OIDCError
from fastapi_oidc.flows import answers as answering
from fastapi_oidc.flows.answers import UNVERIFIED, Answers
from fastapi_oidc.flows.refresh_outcomes import name_of
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.shared import KeptAnswer
from fastapi_oidc.provider import Undecided
from fastapi_oidc.testing import ServerError
from tests.oidc.world import World, make_world

PATIENCE = 10
LONGEST_EXCHANGE = 60


class Notes:
    """What is told to other processes, and what they left."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.told: list[tuple[Any, ...]] = []
        self.left: KeptAnswer | None = None
        self.is_noted, self.seconds_to_note = False, 0

    async def present(self, name: str, now: int, seconds: int) -> KeptAnswer | None:
        self.told.append(("presents", name, now, seconds))
        self._world.time.advance(self.seconds_to_note)
        return self.left

    async def is_presented(self, name: str) -> bool:
        return self.is_noted and bool(name)

    async def keep_answer(self, name: str, answer: KeptAnswer, seconds: int) -> None:
        self.told.append(("keeps", name, answer, seconds))

    async def forget(self, name: str) -> None:
        self.told.append(("forgets", name))


class Site:
    """A world in which somebody has signed in."""

    def __init__(self, world: World, session: OIDCSession[Any]) -> None:
        self.world, self.session, self.name = world, session, name_of(session)
        self.notes = Notes(world)
        self.party: RelyingParty[Any] = world.oidc.site.party
        self._presented = world.op.record.calls["token"]

    @property
    def presented(self) -> int:
        return self.world.op.record.calls["token"] - self._presented

    def alone(self) -> Answers[Any]:
        return Answers(self.party)

    def beside_others(self) -> Answers[Any]:
        notes: Any = self.notes
        return Answers(replace(self.party, shared=notes))


async def signed_in(**options: Any) -> Site:
    world = make_world(**options)
    browser = await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    return Site(world, found.kept.session)


@pytest.fixture
async def site() -> Site:
    return await signed_in()


async def test_what_is_answered_is_verified_and_given_again(site: Site) -> None:
    answers = site.alone()
    answer = await answers.to(site.session)
    assert answer.received_at == site.world.time.now
    assert answer.verified is not None
    assert answer.verified.claims["sub"] == "alice"
    assert await answers.to(site.session) is answer
    assert site.presented == 1


async def test_it_is_kept_to_the_end_of_the_session(site: Site) -> None:
    answers = site.alone()
    assert not await answers.are_awaited(site.session)
    await answers.to(site.session)
    site.world.time.now = site.session.expires_at - 1
    assert await answers.are_awaited(site.session)
    site.world.time.advance(1)
    assert not await answers.are_awaited(site.session)


async def test_it_is_kept_no_longer_than_it_is_of_use(site: Site) -> None:
    answers = site.alone()
    await answers.to(site.session)
    answers.forget("another")
    assert await answers.are_awaited(site.session)
    answers.forget(site.name)
    assert not await answers.are_awaited(site.session)


async def test_the_answers_that_are_kept_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "LIMIT", 0)
    answers = site.alone()
    await answers.to(site.session)
    assert not await answers.are_awaited(site.session)


async def test_an_answer_without_an_id_token_needs_no_verification() -> None:
    site = await signed_in()

    def without(said: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in said.items() if name != "id_token"}

    site.world.op.edits.put("token_response", without)
    assert (await site.alone().to(site.session)).verified is None


async def test_other_processes_are_told_before_and_after(site: Site) -> None:
    began = site.world.time.now
    answer = await site.beside_others().to(site.session)
    to_its_end = site.session.expires_at - began
    assert site.notes.told == [
        ("presents", site.name, began, LONGEST_EXCHANGE + PATIENCE),
        ("keeps", site.name, replace(answer, verified=None), to_its_end),
    ]


async def test_an_answer_that_came_after_the_sessions_end_is_told_for_a_second(site: Site) -> None:
    site.world.time.now = site.session.expires_at + 5
    await site.beside_others().to(site.session)
    assert site.notes.told[-1][-1] == 1


async def test_what_another_process_left_is_verified_here(site: Site) -> None:
    answer = await site.alone().to(site.session)
    site.notes.left = replace(answer, verified=None)
    assert await site.beside_others().to(site.session) == answer
    assert site.presented == 1


async def test_who_stood_still_while_it_was_noted_presents_nothing(site: Site) -> None:
    site.notes.seconds_to_note = PATIENCE + 1
    with pytest.raises(SessionError) as caught:
        await site.beside_others().to(site.session)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
    assert site.presented == 0
    site.notes.seconds_to_note = PATIENCE
    await site.beside_others().to(site.session)
    assert site.presented == 1


async def test_an_answer_that_was_left_is_taken_however_long_that_took(site: Site) -> None:
    answer = await site.alone().to(site.session)
    site.notes.left, site.notes.seconds_to_note = answer, PATIENCE + 1
    assert await site.beside_others().to(site.session) == answer


@pytest.mark.parametrize(
    ("seconds", "is_forgotten"), [(LONGEST_EXCHANGE - 1, True), (LONGEST_EXCHANGE, False)]
)
async def test_after_a_failure_nobody_waits_but_for_whoever_presents_the_token_since(
    site: Site, seconds: int, is_forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.world.op.faults.put("token", ServerError())
    answers = site.beside_others()
    refresh = site.party.provider.refresh

    async def slow(token: str) -> Any:
        site.world.time.advance(seconds)
        return await refresh(token)

    monkeypatch.setattr(site.party.provider, "refresh", slow)
    with pytest.raises(ProviderError):
        await answers.to(site.session)
    assert (("forgets", site.name) in site.notes.told) is is_forgotten
    assert len(site.notes.told) == 1 + is_forgotten


async def test_a_failure_alone_is_raised(site: Site) -> None:
    site.world.op.faults.put("token", ServerError())
    with pytest.raises(ProviderError):
        await site.alone().to(site.session)


async def test_a_token_that_another_process_presented_is_awaited(site: Site) -> None:
    answers = site.beside_others()
    assert not await answers.are_awaited(site.session)
    site.notes.is_noted = True
    assert await answers.are_awaited(site.session)


@pytest.mark.parametrize(
    ("is_by_new_keys", "seconds", "is_given_up"),
    [(True, UNVERIFIED - 1, False), (True, UNVERIFIED, True), (False, UNVERIFIED, False)],
)
async def test_what_no_newly_read_key_verifies_for_an_hour_is_given_up(
    site: Site,
    is_by_new_keys: bool,
    seconds: int,
    is_given_up: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def undecided(*about: Any) -> Any:
        error = Undecided(Code.PROVIDER_UNREACHABLE)
        error.is_by_new_keys = is_by_new_keys
        raise error

    monkeypatch.setattr(site.party.provider, "verify", undecided)
    answers = site.beside_others()
    for later in (0, seconds):
        site.world.time.advance(later)
        with pytest.raises(OIDCError):
            await answers.to(site.session)
    assert (("forgets", site.name) in site.notes.told) is is_given_up
    assert await answers.are_awaited(site.session) is not is_given_up
    assert site.presented == 1
