"""One session as its browser knows it, and what each answer must say of it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

import httpx

from examples.fleet.status import SESSION_PATH, SessionSeen
from tools.load.causes import Span
from tools.load.rules import Rule
from tools.load.site import Answer, Site

TRIES: Final = 60
"""How often somebody asks who is not answered; with their pauses, for longer than any fault."""
PERSON: Final = re.compile(r"Person \d{3}")
"""How the people of the load are called, on every page that names one."""


@dataclass(slots=True)
class Visit:
    """Somebody who is signed in `since` a moment; `first` is what the login told of the session."""

    site: Site
    http: httpx.AsyncClient
    name: str
    first: SessionSeen
    since: float
    generation: int = 0
    lives: bool = True

    async def look(self) -> bool:
        """Asks who this is, as each page of an application does; whether there was an answer."""
        asked_at = int(time.time())
        answer = await self.site.answer("session", lambda: self.http.get(self._at(SESSION_PATH)))
        if self._is_served(answer) and answer.response is not None:
            self._judge(SessionSeen.model_validate(answer.response.json()), asked_at)
        return not answer.failed

    async def last_look(self) -> bool:
        """Alone, and until there is an answer: nothing is under way afterwards."""
        for _ in range(TRIES):
            if await self.look():
                return True
        return False

    async def open_page(self) -> str:
        """The console's first page, which asks every monitor; empty when it is refused."""
        answer = await self.site.answer("page", lambda: self.http.get(self._at("/")))
        if not self._is_served(answer) or answer.response is None:
            return ""
        named = set(PERSON.findall(answer.response.text))
        if named != {self.name}:
            what = f"the page of {self.name} names {sorted(named)}"
            self.site.verdict.broken(Rule.OWN_SESSION, what)
        return answer.response.text

    def _at(self, path: str) -> str:
        return self.site.url + path

    def _is_served(self, answer: Answer) -> bool:
        """Whether the answer is for a session; a refusal of one that lives is a breach."""
        if answer.status == httpx.codes.OK:
            return True
        if self.lives and not answer.failed:
            self.lives = False
            span = Span(self.since, answer.span.ended)
            self.site.broken_unless_lost(f"{self.name} was answered {answer.status}", span)
        return False

    def _judge(self, seen: SessionSeen, asked_at: int) -> None:
        verdict, first = self.site.verdict, self.first
        if (seen.id, seen.sub, seen.sid) != (first.id, first.sub, first.sid):
            what = f"{first.sub} was answered as {seen.sub}, session {seen.id} for {first.id}"
            verdict.broken(Rule.OWN_SESSION, what)
        over = asked_at - (seen.access_token_expires_at or 0)
        if over > 0:
            verdict.broken(Rule.FRESH_TOKEN, f"{first.sub}, {over} s, by worker {seen.worker}")
        self.generation = max(self.generation, seen.generation)

    def judge_refreshes(self, now: float) -> None:
        """As many token calls as the session has seen refreshes, once nobody asks any more."""
        self.site.tokens.read()
        calls = self.site.tokens.refreshes[self.first.sid or ""]
        lost = self.site.causes.lose_answers(Span(self.since, now))
        if calls < self.generation or (calls > self.generation and not lost):
            what = f"{self.first.sub}: {calls} token calls for {self.generation} refreshes"
            self.site.verdict.broken(Rule.ONE_TOKEN_CALL, what)
