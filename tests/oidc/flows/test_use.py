"""When the time of a request is written, for the idle timeout."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import MemoryRefreshLock
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.use import used
from fastapi_oidc.session.keeper import Kept
from tests.oidc.session.examples import NOW, a_session
from tests.oidc.world import Time, make_world

SEEN = NOW + 1000


class Site:
    """An application with an idle timeout, and a session that was seen at `SEEN`."""

    def __init__(self, idle_timeout: int | None) -> None:
        self.time = Time(NOW)
        world = make_world(
            settings={"idle_timeout": idle_timeout},
            time=self.time,
            refresh_lock=MemoryRefreshLock(),
        )
        self.party: RelyingParty[Any] = world.oidc.site.party
        self.kept: Kept[Any] = Kept(a_session().model_copy(update={"last_seen_at": SEEN}))

    async def seen_after(self, seconds: int, *, active: bool = True) -> int | None:
        """When the session was last seen, after a request so long after the last one."""
        self.time.now = SEEN + seconds
        result = await used(self.party, self.kept, active=active)
        if result is not self.kept:
            assert self.party.register.newest(self.kept) is result
        return result.session.last_seen_at


@pytest.mark.parametrize(("idle_timeout", "due"), [(600, 60), (609, 60), (60, 6)])
async def test_after_a_tenth_of_the_timeout(idle_timeout: int, due: int) -> None:
    assert await Site(idle_timeout).seen_after(due - 1) == SEEN
    assert await Site(idle_timeout).seen_after(due) == SEEN + due


async def test_from_the_login_on_when_nobody_was_seen_since() -> None:
    site = Site(600)
    site.kept = Kept(a_session())
    assert await site.seen_after(59 + NOW - SEEN) is None
    assert await site.seen_after(60 + NOW - SEEN) == NOW + 60


async def test_not_for_a_request_that_nobody_made() -> None:
    assert await Site(600).seen_after(60, active=False) == SEEN


async def test_not_without_an_idle_timeout() -> None:
    assert await Site(None).seen_after(60) == SEEN


async def test_other_processes_are_told() -> None:
    site = Site(600)
    await site.seen_after(60)
    assert site.party.shared is not None
    assert await site.party.shared.last_use(site.kept.session.id) == SEEN + 60
