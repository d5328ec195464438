"""What all browsers have in common: where they go, and who judges what they see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import httpx

from fastapi_oidc.testing import DevProvider
from tools.load.causes import NO_ANSWER, Causes, Span
from tools.load.figures import Latencies
from tools.load.rules import Rule, Verdict
from tools.load.tokens import LogoutTokens, TokenCalls

SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request, and when; without an answer the status is NO_ANSWER."""

    span: Span
    status: int
    response: httpx.Response | None

    @property
    def failed(self) -> bool:
        """Whether it says nothing about the session: a 5xx, or no answer."""
        return self.status == NO_ANSWER or self.status >= SERVER_ERROR


@dataclass(slots=True)
class Site:
    """An application at `url`, its provider, and the rules; `client` makes a new browser."""

    url: str
    client: Callable[[], httpx.AsyncClient]
    op: DevProvider
    tokens: TokenCalls
    logouts: LogoutTokens
    verdict: Verdict
    causes: Causes
    latencies: Latencies = field(default_factory=Latencies)
    breath: float = 0.5
    """Seconds that somebody waits who was not answered."""
    lost: int = 0
    """Sessions and logins that ended since an answer of the provider was lost."""

    async def answer(self, kind: str, asked: Callable[[], Awaitable[httpx.Response]]) -> Answer:
        """The answer, timed, and held against the rule on failures."""
        began, response, status = time.monotonic(), None, NO_ANSWER
        try:
            response = await asked()
            status = max(one.status_code for one in (*response.history, response))
        except httpx.RequestError as error:
            asked_for = error.request.url.copy_with(query=None)
            why = f"{type(error).__name__} of {asked_for}"
        else:
            why = f"status {status} of {response.url.path}"
        answer = Answer(Span(began, time.monotonic()), status, response)
        self.latencies.note(kind, answer.span.ended - began)
        if answer.failed:
            if not self.causes.explain(status, answer.span):
                self.verdict.broken(Rule.NO_CAUSELESS_FAILURE, f"{kind}: {why}")
            await asyncio.sleep(self.breath)
        return answer

    def broken_unless_lost(self, what: str, span: Span) -> None:
        """Somebody was refused who should be served, which a lost answer alone explains."""
        if self.causes.lose_answers(span):
            self.lost += 1
        else:
            self.verdict.broken(Rule.LIVE_IS_SERVED, what)
