"""The fleet as people and its provider see it, and the judgement of each response."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs

import httpx
from pydantic import JsonValue

from fastapi_oidc.testing import DevProvider, Refused, TokensIssued
from tools.load.figures import Latencies
from tools.load.rules import NO_ANSWER, Causes, Rule, Span, Verdict

ROUNDING: Final = 1.0
"""Seconds by which an expiry may be off, since it is told in whole ones."""
PATIENCE: Final = httpx.Timeout(60)
"""Seconds that a logout token may take: a busy machine is no fault of the plan."""
LOGOUT_TOKEN_SENT: Final = "logout_token"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class _Issued:
    """A token answer, written down the moment it was made."""

    at: float
    sid: str


class TokenCalls:
    """Every token call, held against the rule that there is one for each expiry.

    Access tokens become due `due_after` seconds after they were issued. What the provider records
    is taken from it, so that it does not grow.
    """

    def __init__(
        self,
        op: DevProvider,
        due_after: float,
        verdict: Verdict,
        causes: Causes,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._op, self._due_after = op, due_after
        self._verdict, self._causes, self._now = verdict, causes, now
        self._answers: deque[_Issued] = deque()
        self._issued_at: dict[str, float] = {}
        self._read_at = now()
        self.refreshes: Counter[str] = Counter()
        """How often each session of the provider was refreshed, by its `sid`."""
        self.total = 0
        """All refreshes."""
        op.edits.put("token_response", self._noted)

    def _noted(self, members: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Called by the provider for each answer, just before it records that it gave one."""
        sid = str(_payload(str(members["id_token"]))["sid"])
        self._answers.append(_Issued(self._now(), sid))
        return members

    def read(self) -> None:
        """Judges what was recorded since the last time."""
        span, self._read_at = Span(self._read_at, self._now()), self._now()
        events = self._op.record.events
        new = events[: len(events)]
        del events[: len(new)]
        for event in new:
            if isinstance(event, TokensIssued):
                self._judge(event, self._answers.popleft())
            elif isinstance(event, Refused) and event.endpoint == "token":
                self._judge_refusal(event, span)

    def forget(self, sid: str) -> None:
        """Nobody is going to ask for this session any more."""
        self.refreshes.pop(sid, None)
        self._issued_at.pop(sid, None)

    def _judge(self, event: TokensIssued, answer: _Issued) -> None:
        before = self._issued_at.get(answer.sid)
        if event.grant_type != "refresh_token":
            self._issued_at[answer.sid] = answer.at
        elif before is not None:
            self._issued_at[answer.sid] = answer.at
            self.refreshes[answer.sid] += 1
            self.total += 1
            if answer.at - before < self._due_after - ROUNDING:
                what = f"{event.sub} was refreshed {answer.at - before:.2f} s after the time before"
                self._verdict.broken(Rule.ONE_TOKEN_CALL, what)

    def _judge_refusal(self, event: Refused, span: Span) -> None:
        if "used before" in event.description and not self._causes.lose_answers(span):
            self._verdict.broken(Rule.ONE_TOKEN_CALL, event.description)


class LogoutTokens(httpx.AsyncBaseTransport):
    """The provider's way to the application; notes what became of each logout token."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.statuses: dict[str, int] = {}
        """The application's last answer for each `sid`."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The application's answer, noted."""
        form = parse_qs((await request.aread()).decode())
        request.extensions["timeout"] = PATIENCE.as_dict()
        response = await self._inner.handle_async_request(request)
        self.statuses[str(_payload(form[LOGOUT_TOKEN_SENT][0])["sid"])] = response.status_code
        return response


def _payload(token: str) -> dict[str, JsonValue]:
    """The claims of a token that this process made itself."""
    encoded = token.split(".")[1]
    claims: dict[str, JsonValue] = json.loads(base64.urlsafe_b64decode(encoded + "=="))
    return claims


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
