"""Each rule holds for an application that is right, and is broken by one that breaks it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.tools.load.world import APP, CLIENT, Lie, World
from tools.load.browser import WAYS, Visit, Way, back_channel, sign_out, sign_out_everywhere
from tools.load.figures import FLAT_MIB, SETTLED_AFTER, Memory
from tools.load.rules import Cause, Causes, Rule, Span, Verdict
from tools.load.run import Outcome, lines

KINDS: dict[Way, str] = {
    sign_out: "sign-out",
    sign_out_everywhere: "sign-out everywhere",
    back_channel: "back-channel logout",
}
LATER = Cause("a fault", frozenset({0, 500, 503}), aftermath=1, loses_answers=True)


def told(**changes: object) -> Lie:
    """What is told of the session has these members in place of the true ones."""

    def lie(request: httpx.Request, response: httpx.Response) -> httpx.Response:
        if request.url.path != "/whoami" or response.status_code != 200:
            return response
        return httpx.Response(200, json=response.json() | changes)

    return lie


def answered(status: int, path: str = "/whoami") -> Lie:
    """Requests for `path` are answered so."""

    def lie(request: httpx.Request, response: httpx.Response) -> httpx.Response:
        return httpx.Response(status) if request.url.path == path else response

    return lie


def forgetful() -> Lie:
    """Who was served once is served for ever."""
    served: dict[str, Any] = {}

    def lie(request: httpx.Request, response: httpx.Response) -> httpx.Response:
        cookie = request.headers.get("Cookie", "")
        if request.url.path == "/whoami" and response.status_code == 200:
            served[cookie] = response.json()
        if response.status_code == 401 and cookie in served:
            return httpx.Response(200, json=served[cookie])
        return response

    return lie


@asynccontextmanager
async def visiting(world: World) -> AsyncIterator[Visit]:
    """A person who has just signed in."""
    async with world.client() as http:
        visit = await world.browser().enter(http)
        assert visit is not None
        yield visit


def test_a_visit_ends_in_every_way() -> None:
    assert set(KINDS) == set(WAYS)


@pytest.mark.parametrize("way", WAYS)
async def test_an_application_that_is_right_breaks_no_rule(way: Way) -> None:
    world = World()
    verdict = await world.visited(way)
    assert (verdict.holds, verdict.examples) == (True, [])
    kinds = {row.split("  ")[0] for row in world.site.latencies.rows(1)}
    assert {"login", "session", "refused"} <= kinds
    assert kinds & set(KINDS.values()) == {KINDS[way]}


def broken_off(request: httpx.Request, response: httpx.Response) -> httpx.Response:
    raise httpx.ReadError("broken off", request=request)


@pytest.mark.parametrize(
    ("lie", "rule"),
    [
        (told(sub="mallory"), Rule.OWN_SESSION),
        (told(id="another"), Rule.OWN_SESSION),
        (told(sid="another"), Rule.OWN_SESSION),
        (told(access_token_expires_at=1), Rule.FRESH_TOKEN),
        (answered(401), Rule.LIVE_IS_SERVED),
        (answered(500), Rule.NO_CAUSELESS_FAILURE),
        (answered(503), Rule.NO_CAUSELESS_FAILURE),
        (broken_off, Rule.NO_CAUSELESS_FAILURE),
    ],
)
async def test_one_wrong_answer_is_seen(lie: Lie, rule: Rule) -> None:
    world = World()
    async with visiting(world) as visit:
        world.lie = lie
        await visit.look()
    assert world.site.verdict.breaches == {rule: 1}
    assert visit.lives is (rule is not Rule.LIVE_IS_SERVED)


async def test_a_login_as_somebody_else_is_seen() -> None:
    world = World(lie=told(sub="mallory"))
    async with visiting(world):
        assert world.site.verdict.breaches == {Rule.OWN_SESSION: 1}


async def test_a_page_that_names_somebody_else_is_seen() -> None:
    world = World()
    async with visiting(world) as visit:
        await visit.open_page()
        assert world.site.verdict.holds
        world.lie = lambda request, response: httpx.Response(200, text="Person 001, Person 002")
        await visit.open_page()
    assert world.site.verdict.breaches == {Rule.OWN_SESSION: 1}


@pytest.mark.parametrize("way", WAYS)
async def test_a_session_that_outlives_its_end_is_seen(way: Way) -> None:
    verdict = await World(lie=forgetful()).visited(way)
    assert set(verdict.breaches) == {Rule.ENDED_IS_REFUSED}


async def test_a_login_that_is_refused_is_seen() -> None:
    world = World(lie=answered(400, "/auth/callback"))
    await world.visited()
    assert world.site.verdict.breaches == {Rule.LIVE_IS_SERVED: 1}


async def test_a_lost_answer_explains_a_refusal() -> None:
    world = World()
    with world.site.causes.under(LATER):
        async with visiting(world) as visit:
            world.lie = answered(401)
            await visit.look()
    assert world.site.verdict.holds
    assert world.site.lost == 1


@pytest.mark.parametrize(("status", "broken"), [(500, 0), (502, 1)])
async def test_a_cause_explains_the_failures_of_its_kind_alone(status: int, broken: int) -> None:
    world = World()
    async with visiting(world) as visit:
        world.lie = answered(status)
        with world.site.causes.under(LATER):
            await visit.look()
    assert world.site.verdict.breaches[Rule.NO_CAUSELESS_FAILURE] == broken


async def test_a_logout_token_that_is_not_taken_is_seen() -> None:
    world = World(logout_lie=lambda request, response: httpx.Response(400))
    verdict = await world.visited(back_channel)
    assert set(verdict.breaches) == {Rule.NO_CAUSELESS_FAILURE}


async def test_a_refresh_that_is_not_due_is_seen() -> None:
    world = World()
    async with visiting(world) as visit:
        await visit.http.get(f"{APP}/refresh")
        await visit.look()
        visit.judge_refreshes(visit.since)
    [example] = world.site.verdict.examples
    assert world.site.verdict.breaches == {Rule.ONE_TOKEN_CALL: 1}
    assert "person-001 was refreshed " in example


@pytest.mark.parametrize("generation", [1, -1])
async def test_more_or_fewer_token_calls_than_refreshes_are_seen(generation: int) -> None:
    world = World()
    async with visiting(world) as visit:
        visit.generation = generation
        visit.judge_refreshes(visit.since)
    assert world.site.verdict.breaches == {Rule.ONE_TOKEN_CALL: 1}


async def test_a_refresh_token_that_is_used_twice_is_seen() -> None:
    world = World()
    async with (
        visiting(world),
        httpx.AsyncClient(transport=httpx.ASGITransport(world.op.app)) as http,
    ):
        form = {"grant_type": "refresh_token", "refresh_token": world.refresh_tokens[0]}
        credentials = (CLIENT.client_id, CLIENT.client_secret or "")
        answers = [
            await http.post(f"{world.op.issuer}/token", data=form, auth=credentials)
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 400]
        world.site.tokens.read()
    assert world.site.verdict.breaches == {Rule.ONE_TOKEN_CALL: 2}  # it was not due, either
    assert "used before" in world.site.verdict.examples[-1]


@pytest.mark.parametrize(("growth", "broken"), [(FLAT_MIB, 0), (FLAT_MIB + 1, 1)])
def test_a_worker_that_grows_is_seen(growth: float, broken: int) -> None:
    sizes = iter([50.0, 80.0, 80.0 + growth])
    memory, verdict = Memory(lambda pid: next(sizes)), Verdict()
    for moment in (0, SETTLED_AFTER, 2 * SETTLED_AFTER):
        memory.sample({"worker 1": 7, "worker 2": None}, moment)
    memory.judge(verdict)
    assert verdict.breaches[Rule.FLAT_MEMORY] == broken


@pytest.mark.parametrize(
    ("span", "explained"),
    [
        (Span(90, 99.9), False),
        (Span(90, 100), True),
        (Span(115, 130), True),
        (Span(115.1, 116), False),
        (Span(90, 130), True),
    ],
)
def test_a_fault_explains_what_happens_during_it_and_in_its_aftermath(
    span: Span, explained: bool
) -> None:
    now = 100.0
    causes = Causes(lambda: now)
    with causes.under(Cause("away", frozenset({503}), aftermath=10, loses_answers=True)):
        now = 105
    assert causes.explain(503, span) is explained
    assert causes.lose_answers(span) is explained
    assert not causes.explain(500, span)
    assert not causes.lose_endings(span)


def test_the_report_names_broken_rules_and_what_faults_explain() -> None:
    site = World().site
    with site.causes.under(Cause("Redis away", frozenset({503}), aftermath=0)):
        site.causes.explain(503, Span(0, float("inf")))
    site.verdict.broken(Rule.ENDED_IS_REFUSED, "person-001 was served")
    report = "\n".join(lines(Outcome(site, Memory(), faults=["Redis away"], seconds=1)))
    assert "1 x Redis away: 1 x 503\n" in report
    assert f"  BROKEN 1 times    {Rule.ENDED_IS_REFUSED}\n" in report
    assert f"  holds             {Rule.OWN_SESSION}\n" in report
