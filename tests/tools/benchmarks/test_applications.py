"""The measured application is the real one: people sign in, refresh, and are distinguished."""

import asyncio
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("auth0_fastapi", reason="a peer: the dependency group bench")

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.session_cookie import SessionCodec
from tests.programs import require_program
from tools.benchmarks.applications import (
    BY_DEPENDS,
    BY_REQUEST,
    ask,
    asking,
    auth0_application,
    bare_application,
    our_application,
    session_of,
    signed_in,
    starlette_application,
    starlette_cookies,
)
from tools.benchmarks.provider import Lives, RotatingProvider
from tools.benchmarks.refreshes import STEP, visits
from tools.benchmarks.storms import is_right, storm

ISSUER = "https://op.example.com"


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


async def test_each_application_knows_its_users() -> None:
    ours, _ = our_application(ISSUER, provider=RotatingProvider(ISSUER, Lives()).app)
    cookies = await signed_in(ours, 2)
    payload = SessionCodec(StandardIdentity).encode(await session_of(ours, cookies[0]))
    assert 2000 < len(payload) < 2500
    assert len(starlette_cookies(payload, 1)[0]) > len(payload) * 4 / 3, "as much JSON as ours"
    peer, (auth0, auth0_cookie) = starlette_application(), auth0_application(payload)
    subs = {
        (app, path, cookie): json.loads((await ask(app, path, cookie))[1]["body"])["sub"]
        for app, path, cookie in (
            *((ours, BY_REQUEST, cookie) for cookie in cookies),
            *((ours, BY_DEPENDS, cookie) for cookie in cookies),
            *((peer, BY_REQUEST, cookie) for cookie in starlette_cookies(payload, 2)),
            *((peer, BY_DEPENDS, cookie) for cookie in starlette_cookies(payload, 2)),
            (auth0, BY_DEPENDS, auth0_cookie),
        )
    }
    assert list(subs.values()) == ["user-000000", "user-000001"] * 4 + ["user-000000"]


def test_a_request_that_is_refused_is_not_measured(runner: asyncio.Runner) -> None:
    ours, _ = our_application(ISSUER, provider=RotatingProvider(ISSUER, Lives()).app)
    with pytest.raises(RuntimeError, match="status 401"):
        asking(runner, ours, BY_DEPENDS, [""])(1)
    asking(runner, bare_application(), BY_DEPENDS, [""])(1)


def test_each_measured_refresh_is_one(runner: asyncio.Runner) -> None:
    visits(runner, STEP)(2)
    visits(runner, 0)(2)
    with pytest.raises(RuntimeError, match=r"after [12] seconds"):
        visits(runner, 1)(2)  # too early: two or three seconds make it due


def test_a_storm_is_exact() -> None:
    require_program("redis-server", package="redis-server")
    seconds, later, wrong = storm("cookie, one process", sessions=3, delay=0)
    assert (later, wrong) == (0, 0)
    assert seconds > 0


@pytest.mark.parametrize("token", ["ttt-user-000002.1", "ttt-user-000001.0", "ttt-user-000001.2"])
def test_the_page_of_somebody_else_or_of_another_generation_is_wrong(token: str) -> None:
    assert is_right({"sub": "user-000001", "access_token": "ttt-user-000001.1"}, 1)
    assert not is_right({"sub": "user-000001", "access_token": token}, 1)
