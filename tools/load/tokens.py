"""The provider's side: how often it was asked for tokens, and what its logout tokens came to."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

import httpx
from pydantic import JsonValue

from fastapi_oidc.testing import DevProvider, Refused, TokensIssued
from tools.load.causes import Causes, Span
from tools.load.rules import Rule, Verdict

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
