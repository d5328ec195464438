"""What is counted in a storm: the answer that comes in the end, and what it took to get it."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from tools.benchmarks.oidc_storm import REQUESTS, Storm, Weathered
from tools.benchmarks.oidc_storm_worker import GOOD, LATER, asked_for, storm

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers
    from tools.benchmarks.curves import storms


def answering(*answers: Response) -> FastAPI:
    """Gives these answers to /me, one after the other."""
    app, given = FastAPI(), iter(answers)

    async def me() -> Response:
        return next(given)

    app.get("/me", response_model=None)(me)
    return app


def later() -> Response:
    return JSONResponse({}, 503, {"Retry-After": "0"})


def refreshed(times: int) -> Response:
    return JSONResponse({"generation": times})


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([refreshed(1)], GOOD),
        ([refreshed(2)], "refreshed 2 times"),
        (
            [later(), later(), refreshed(1)],
            GOOD + LATER,
        ),
        ([JSONResponse({"code": "token.invalid_grant"}, 401)], "401, token.invalid_grant"),
    ],
)
async def test_who_is_told_to_come_later_asks_again(answers: list[Response], kind: str) -> None:
    came, held = await asked_for(answering(*answers), "")
    assert came == kind
    assert held > 0


async def test_a_storm_asks_so_often_for_each_session() -> None:
    came = await storm(answering(*(refreshed(1) for _ in range(6))), ["a=1", "b=2"], 3)
    assert came.answers == {GOOD: 6}
    assert 0 < came.held <= came.seconds


def weathered(storm: Storm) -> Weathered:
    """As it must be, in a second for each hundred sessions."""
    answers = Counter({GOOD: storm.sessions * REQUESTS - 1, GOOD + LATER: 1})
    seconds = storm.sessions / 100
    return Weathered(storm, answers, storm.sessions, storm.sessions, 32, seconds, seconds / 2)


def test_a_picture_of_storms_says_what_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storms, "weathered", weathered)
    drawn = storms.storms_over_sessions((100, 1000))
    line = "ours, cookie, one process"
    assert drawn.lines[line] == [(100, 1), (1000, 10)]
    assert drawn.beside["seconds of the longest request"][line] == [(100, 0.5), (1000, 5)]
    (refused,) = (lines for name, lines in drawn.beside.items() if "503" in name)
    assert refused[line] == [(100, 1), (1000, 1)]
    assert all(target.is_met for target in drawn.targets)


@pytest.mark.parametrize("lost", [Counter({GOOD: 999}), Counter({GOOD: 999, "401, no code": 1})])
def test_an_answer_that_is_lost_or_another_is_wrong(lost: Counter[str]) -> None:
    assert Weathered(Storm("cookie", 1, 0.2, 5, 100), lost, 100, 100, 32, 1, 1).wrong == 1
