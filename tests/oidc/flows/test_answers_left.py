"""An answer that other processes could not be told of is left to them as soon as it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc.flows import answers as answering
from fastapi_oidc.flows.answers import Answers
from fastapi_oidc.flows.refresh_outcomes import name_of
from fastapi_oidc.flows.shared import KeptAnswer
from tests.oidc.flows.test_answers import Notes, Site, signed_in

PATIENCE = 20
AS_LONG_AS_IT_TAKES = 1000


class Refusing(Notes):
    """Others are told what `tells` says, at each attempt; at first of nothing."""

    attempts: list[str]
    tells: Callable[[], bool]

    async def keep_answer(self, name: str, answer: KeptAnswer, seconds: int) -> bool:  # type: ignore[override]  # as Shared
        self.attempts.append(name)
        return self.tells()


class Place:
    """Somebody has signed in; what is answered to a refresh cannot be left."""

    def __init__(self, site: Site) -> None:
        self.site, self.notes = site, Refusing(site.world)
        self.notes.attempts, self.notes.tells = [], lambda: False
        notes: Any = self.notes
        self.answers: Answers[Any] = Answers(replace(site.party, shared=notes))

    async def until_tried(self, name: str, times: int) -> None:
        for _ in range(AS_LONG_AS_IT_TAKES):
            if self.notes.attempts.count(name) >= times:
                return
            await asyncio.sleep(0)
        raise AssertionError(self.notes.attempts)

    async def end(self) -> None:
        self.notes.tells = lambda: True
        await self.answers.aclose()


@pytest.fixture
async def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(answering, "PAUSE", 0.0)
    return Place(await signed_in())


async def test_it_is_tried_again_until_it_is_left(place: Place) -> None:
    await place.answers.to(place.site.session)
    await place.until_tried(place.site.name, 3)
    await place.end()
    assert len(place.answers._leaving) == 0


async def test_each_one_is(place: Place) -> None:
    bobs = await place.site.world.signed_in("bob")
    found = await place.site.party.keeper.read(dict(bobs.cookies))
    assert found is not None
    for session in (place.site.session, found.kept.session):
        await place.answers.to(session)
    for session in (place.site.session, found.kept.session):
        await place.until_tried(name_of(session), 2)
    await place.end()


async def test_what_was_done_meanwhile_is_not_left_behind(place: Place) -> None:
    name = place.site.name

    def tells() -> bool:
        if place.notes.attempts.count(name) == 1:
            return False
        place.answers.forget(name)
        return True

    place.notes.tells = tells
    await place.answers.to(place.site.session)
    await place.until_tried(name, 2)
    await place.answers.aclose()
    assert place.notes.told[-1] == ("forgets", name)


async def test_a_process_that_ends_tries_once_more_and_no_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "LAST_ATTEMPTS", 1000.0)
    await place.answers.to(place.site.session)
    async with asyncio.timeout(PATIENCE):
        await place.answers.aclose()
    assert place.notes.attempts == [place.site.name] * 2
    assert len(place.answers._leaving) == 0


async def test_a_process_that_ends_does_not_wait_for_a_pause_without_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "PAUSE", 1000.0)
    monkeypatch.setattr(answering, "LAST_ATTEMPTS", 0.0)
    await place.answers.to(place.site.session)
    async with asyncio.timeout(PATIENCE):
        await place.answers.aclose()
    assert place.notes.attempts == [place.site.name]


async def test_an_answer_after_a_shutdown_is_of_the_next_start(place: Place) -> None:
    await place.answers.aclose()
    await place.answers.to(place.site.session)
    await place.until_tried(place.site.name, 3)
    await place.end()
