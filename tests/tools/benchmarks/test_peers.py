"""The applications that are compared: each knows its own browser, and curves have their points."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers
    from tools.benchmarks.curves.evictions import login_at_the_limit
    from tools.benchmarks.curves.sizes import BROWSERS, request_over_size
    from tools.benchmarks.oidc_peers import Visited, auth0, starlette_sessions, users_with_tokens
    from tools.benchmarks.oidc_visits import CODEC, a_session_of, asking, many, ours

from fastapi_oidc.session.opener import Opener


async def of_ours() -> Visited:
    return await ours(many(2, a_session_of(500)))


async def in_memory() -> Visited:
    return await ours(many(2, a_session_of(500)), session_store="memory")


async def of_starlette() -> Visited:
    return starlette_sessions(CODEC.encode(a_session_of(500)))


async def of_auth0() -> Visited:
    return auth0(CODEC.encode(a_session_of(3500)))


@pytest.mark.parametrize("visit", [of_ours, in_memory, of_starlette, of_auth0, users_with_tokens])
def test_each_application_knows_its_browsers_and_nobody_else(
    visit: Callable[[], Coroutine[object, object, Visited]],
) -> None:
    with asyncio.Runner() as runner:
        visited = runner.run(visit())
        asking(runner, visited)(2 * len(visited.cookies))
        with pytest.raises(RuntimeError, match=r"401|500"):
            asking(runner, Visited(visited.app, ("",)))(1)


@pytest.mark.parametrize("size", [500, 1000, 3500])
def test_a_session_is_nearly_as_large_as_it_is_wanted(size: int) -> None:
    assert size - 45 < len(CODEC.encode(a_session_of(size))) < size + 45


def test_a_curve_over_sizes_has_a_point_for_each() -> None:
    drawn = request_over_size((500, 1000), rounds=1, calls=1)
    assert {"ours, cookie, first request", "SessionMiddleware, one browser", "auth0-fastapi"} < set(
        drawn.lines
    )
    for points in drawn.lines.values():
        assert [size for size, _ in points] == [500, 1000]
        assert all(microseconds > 0 for _, microseconds in points)


def test_a_login_into_a_full_store_is_measured_at_every_limit() -> None:
    drawn = login_at_the_limit((20, 40), logins=5)
    assert len(drawn.lines) == 4
    for points in drawn.lines.values():
        assert [limit for limit, _ in points] == [20, 40]


def test_many_browsers_that_take_turns_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def opened(opener: Opener[str, object], sealed: str) -> object:
        read.append(sealed)
        return opens(opener, sealed)

    opens = Opener._opened
    monkeypatch.setattr(Opener, "_opened", opened)
    with asyncio.Runner() as runner:
        visited = runner.run(ours(many(BROWSERS, a_session_of(500))))
        asking(runner, visited)(BROWSERS)
        read.clear()
        asking(runner, visited)(BROWSERS)
    assert len(read) == BROWSERS
