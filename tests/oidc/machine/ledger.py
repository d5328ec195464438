"""What is known of sessions, refresh tokens and requests, and what has to be true of them."""

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import httpx

from fastapi_oidc.protocol.dpop import jwk_thumbprint
from fastapi_oidc.protocol.encoding import decode_base64url
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.testing import DevProvider
from tests.oidc.machine.processes import RESOURCES, STORE_TIMEOUT, Mode, Process
from tests.oidc.virtual_time import VirtualTimeLoop

RESPONSE_SECONDS: Final = 60.0
"""For so long a process awaits the response to a refresh token."""
SLOWEST_ANSWER: Final = 2 * (30 + 20) + 12 * STORE_TIMEOUT
"""Seconds: two refreshes in a row, each of which starts late and takes long, and slow stores."""
SESSION_SECONDS: Final = 8 * 3600


@dataclass(eq=False)
class Presentation:
    """One refresh token on its way to the provider."""

    process: Process
    at: float
    sid: str
    """The session at the provider for which it was issued."""
    used: bool = False
    """The provider gave the next token for it."""
    arrived: bool = False
    """The process has the response."""
    over: bool = False
    """Nothing can arrive any more."""
    secured: bool = False
    """The response, or what was made of it, is where other processes find it."""
    hindered: bool = False
    """A fault kept the response from being secured."""
    repeated: bool = False
    overtaken: bool = False
    """It may reach the provider after the same token of another process."""

    @property
    def is_lost(self) -> bool:
        """Whether the decision says that the session is lost: nobody has the next token."""
        if self.overtaken:
            return True
        if not self.used or self.secured:
            return False
        if not self.arrived:
            return self.over or self.process.is_dead
        return self.hindered and (self.repeated or self.process.is_dead)


@dataclass(eq=False)
class KnownSession:
    """What a session has to be, by what happened to it."""

    id: str
    user: str
    began: float
    sid: str | None = None
    checks: int = 0
    """Silent logins, each of which may have given it new tokens."""
    ended_in: set[Process] = field(default_factory=set)
    ended_everywhere: bool = False
    may_be_over: bool = False
    generation_at_end: int | None = None


@dataclass(eq=False)
class Browser:
    """A cookie jar of one person."""

    user: str
    client: httpx.AsyncClient


@dataclass(eq=False)
class Pending:
    """A request under way."""

    kind: str
    browser: Browser
    process: Process
    session_id: str | None
    at: float
    was_over: bool
    task: asyncio.Task[httpx.Response]
    logouts: int
    ended_at: float = 0.0

    @property
    def patience(self) -> float:
        """A token for an API takes three attempts at most."""
        return SLOWEST_ANSWER * (3 if self.kind.startswith(("call", "job")) else 1)

    def note_end(self, task: asyncio.Task[httpx.Response]) -> None:
        self.ended_at = task.get_loop().time()


class Ledger:
    """What is written down, and what was found to be wrong."""

    def __init__(self, mode: Mode, loop: VirtualTimeLoop, op: DevProvider) -> None:
        self.mode, self.loop, self.op = mode, loop, op
        self.sessions: dict[str, KnownSession] = {}
        self.presented: defaultdict[str, list[Presentation]] = defaultdict(list)
        self.taken: dict[tuple[Process, str | None], float] = {}
        """When a process last became or stayed the owner of the row of a session."""
        self.logouts: defaultdict[str, int] = defaultdict(int)
        self.uncertain: set[str] = set()
        self.opened_at, self.last_status = 0.0, 0
        self.faults_found: list[str] = []

    def known(self, id: str, user: str) -> KnownSession:
        if id not in self.sessions:
            self.sessions[id] = KnownSession(id, user, self.loop.seconds)
        return self.sessions[id]

    def present(self, process: Process, token: str) -> Presentation:
        """No token is presented twice while, or after, a response to it can come."""
        now, issued = self.loop.seconds, self.op._state.credentials.refresh_token(token)
        for earlier in self.presented[token]:
            # An owner that cannot renew its row, or does not live any more, loses it.
            is_cut_off = earlier.process.is_dead or earlier.hindered
            leased_at = self.taken.get((earlier.process, earlier.sid), earlier.at)
            is_over = now >= leased_at + LEASE_SECONDS or not self.mode.is_shared
            nobody_knows = earlier.process is not process and not earlier.secured
            if (earlier.arrived or not earlier.over) and not (
                nobody_knows and is_cut_off and is_over
            ):
                self.faults_found.append("a refresh token was presented again")
            earlier.repeated = True
            earlier.overtaken |= not earlier.over and now < earlier.at + RESPONSE_SECONDS
        presentation = Presentation(process, now, issued.grant.sid if issued else "")
        self.presented[token].append(presentation)
        return presentation

    def _of(self, known: KnownSession) -> list[Presentation]:
        """The refresh tokens that were presented for the session."""
        every = chain.from_iterable(self.presented.values())
        return [each for each in every if each.sid == known.sid and each.at >= known.began]

    def api(self, name: str, user: str) -> httpx.MockTransport:
        """An API that is called for the user, with tokens for both and proofs by their keys."""

        def called(request: httpx.Request) -> httpx.Response:
            token = request.headers["authorization"].partition(" ")[2]
            issued = self.op._state.credentials.access_token(token)
            if issued is None:
                return httpx.Response(200)  # it has expired
            if issued.grant.user.sub != user:
                self.faults_found.append("an API got a token of somebody else")
            if issued.access.audience != RESOURCES.get(name, self.op.issuer):
                self.faults_found.append("an API got a token for another")
            if issued.thumbprint != _key_of(request.headers.get("dpop")):
                self.faults_found.append("an API got a proof by another key")
            return httpx.Response(200)

        return httpx.MockTransport(called)

    def note(self, process: Process, id: str, change: str) -> None:
        """The store has changed the row of a session."""
        if (known := self.sessions.get(id)) is None:
            return
        if change == "end":
            known.ended_everywhere = True
            if known.generation_at_end is None:
                known.generation_at_end = self.generation(known)
        if change == "take":
            self.taken[process, known.sid] = self.loop.seconds
        for each in self._of(known):
            if each.process is process:
                each.secured |= each.used and change in ("record", "finish")

    def hinder(self, process: Process) -> None:
        """The process cannot write down what the provider returned."""
        for presentation in chain.from_iterable(self.presented.values()):
            if presentation.process is process and not presentation.secured:
                presentation.hindered = True

    def generation(self, known: KnownSession) -> int:
        """As many refreshes as the session can have seen."""
        return known.checks + sum(each.used for each in self._of(known))

    def is_over(self, pending: Pending) -> bool:
        """Whether the session of this request has ended for its process."""
        known = self.sessions.get(pending.session_id or "")
        if known is None:
            return False
        return known.ended_everywhere or pending.process in known.ended_in

    def begin_ending(self, user: str) -> list[KnownSession]:
        over = [known for known in self.sessions.values() if known.user == user]
        for known in over:
            known.may_be_over = True
        self.logouts[user] += 1
        return over

    def may_be_over(self, known: KnownSession) -> bool:
        """Whether the session has ended, or was lost in a way that the decision names."""
        age = self.loop.seconds - known.began
        # The idle timeout counts from a use that a store may not have been told of.
        has_expired = age > (self.mode.idle_timeout or SESSION_SECONDS) - 100
        lost = any(each.is_lost for each in self._of(known))
        return known.may_be_over or has_expired or lost

    def judge(self, pending: Pending, others: list[Pending]) -> None:
        """The answer to a request, while others are under way."""
        if pending.task.cancelled():
            return
        seconds = pending.ended_at - max(pending.at, self.opened_at)
        if seconds > pending.patience:
            self.faults_found.append(f"an answer took {seconds:g} seconds")
        if (error := pending.task.exception()) is not None:
            self.faults_found.append(f"a request failed: {error!r}")
            return
        response = pending.task.result()
        self.last_status = response.status_code
        is_page = pending.kind == "silent" or response.status_code != 200
        document = {} if is_page else response.json()
        if response.status_code == 500:
            self.faults_found.append(f"{pending.kind}: {response.status_code} {response.text}")
        elif pending.kind == "login":
            self._judge_login(pending, others, document)
        elif pending.kind == "logout":
            assert response.status_code == 302, response.text
            self._judge_logout(pending)
        elif pending.kind == "silent":
            assert "data-outcome" in response.text, response.text
        elif pending.session_id is not None and response.status_code < 500:
            known = self.known(pending.session_id, pending.browser.user)
            self._judge_session(pending, known, document)

    def _judge_login(
        self, pending: Pending, others: list[Pending], document: dict[str, Any]
    ) -> None:
        if "id" not in document:
            return
        known = self.known(document["id"], pending.browser.user)
        is_alone = not any(each.kind == "login" for each in others)
        before = self.sessions.get(pending.session_id or "")
        if before is not None and before is not known:
            before.ended_in.add(pending.process)
        if self.logouts[pending.browser.user] != pending.logouts or not is_alone:
            known.may_be_over = True
        if pending.browser.user in self.uncertain:
            known.may_be_over = True
        self._judge_session(pending, known, document)

    def _judge_logout(self, pending: Pending) -> None:
        known = self.sessions.get(pending.session_id or "")
        if known is not None:
            known.ended_in.add(pending.process)

    def _judge_session(
        self, pending: Pending, known: KnownSession, document: dict[str, Any]
    ) -> None:
        is_signed_in = bool(document) and document.get("is_signed_in") is not False
        if not is_signed_in and not self.may_be_over(known):
            self.faults_found.append("a session was lost")
        if not is_signed_in:
            return
        if pending.was_over and pending.kind != "login":
            self.faults_found.append("a session that had ended was accepted")
        if "id" not in document:
            return
        known.sid = document["sid"]
        limit = known.generation_at_end
        if limit is not None and document["generation"] > limit:
            self.faults_found.append("a session that had ended was refreshed")
        if (document["id"], document["sub"]) != (known.id, pending.browser.user):
            self.faults_found.append("a session of somebody else was given")


def _key_of(proof: str | None) -> str | None:
    """The thumbprint of the key that signed a DPoP proof."""
    if proof is None:
        return None
    return jwk_thumbprint(json.loads(decode_base64url(proof.partition(".")[0]))["jwk"])
