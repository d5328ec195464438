"""What processes tell each other of refreshes and logins, sealed, through the refresh lock."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, Generic

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.protocol.json import parse_json
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider import VerifiedToken
from fastapi_oidc.session.abilities import Closes, KeepsAnswers, Turn, YieldsTurns, bypasses
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.reference import SessionReference
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.stores import RefreshLock, settled, unavailable_as

REMEMBERED: Final = 600
"""Seconds for which other processes find what one of them left."""

NOTED: Final = 60
"""Seconds for which a process that stood still finds that another one has done its refresh."""

_DONE: Final = b'{"done": true}'

_log = logging.getLogger("fastapi_oidc.session")


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What the token endpoint answered to a refresh at `received_at`, seconds since the epoch.

    `verified` is its ID token, once the signature was found to be good in this process.
    """

    response: TokenResponse = field(repr=False)
    received_at: int
    verified: VerifiedToken | None = field(default=None, repr=False)


class Shared(Generic[Identity]):
    """Work that happens once over all processes, and what it left.

    Only sealed bytes pass through the lock: who can read it learns no token. A lock without a
    memory (`KeepsAnswers`) still makes each refresh happen once.
    """

    def __init__(
        self,
        lock: RefreshLock,
        codec: SessionCodec[Identity],
        sealer: Sealer,
        *,
        remembered: int = REMEMBERED,
    ) -> None:
        self._lock, self._codec, self._sealer = lock, codec, sealer
        self._remembered = remembered
        self._memory = lock if isinstance(lock, KeepsAnswers) else None
        is_wrapped = bypasses(lock, "run_in_turn", "run_exclusive")
        self._yielding = lock if isinstance(lock, YieldsTurns) and not is_wrapped else None

    async def once(
        self, name: str, make: Callable[[], Awaitable[Kept[Identity]]], turn: Turn = nullcontext
    ) -> Kept[Identity]:
        """What `make` makes, here or in another process; its errors are this process's alone.

        `make` runs in a `turn`, which is given back while another process is waited for, with a
        lock that can do that (`YieldsTurns`). What was made here is given also when the lock fails
        afterwards. Raises SessionError (session.lock_unavailable) when the lock cannot be had.
        """
        made: list[Kept[Identity]] = []
        failures: list[Exception] = []

        async def sealed() -> bytes:
            try:
                made.append(kept := await make())
            except Exception as error:
                failures.append(error)
                raise
            return self._sealed(name, _written(self._codec.encode(kept.session), kept.reference))

        try:
            with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
                return self._read(self._opened(name, await self._run(name, sealed, turn)))
        except SessionError as error:
            if failures:
                raise failures[0] from None
            if made:
                return made[0]
            raise error

    async def present(self, name: str, now: int, seconds: int) -> KeptAnswer | None:
        """The answer that a process left which did not come to the end of this refresh; None when
        this one may present the refresh token, which is noted for `seconds`.

        Raises SessionError (session.lock_unavailable) while that is noted of another one, to whom
        the answer may still come, or that has come to the end since this one looked.
        """
        if self._memory is None:
            return None
        place = f"answer.{name}"
        mark = self._sealed(place, json.dumps({"sent_at": now}).encode())
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            sealed = await settled(self._memory.claim(place, mark, seconds))
            return None if sealed is None else _answer(self._opened(place, sealed))

    async def is_presented(self, name: str) -> bool:
        """Whether a process has presented the refresh token, and not come to the end yet."""
        return await self._kept(f"answer.{name}") not in (None, _DONE)

    async def keep_answer(self, name: str, answer: KeptAnswer, seconds: int) -> bool:
        """For whoever goes on should this process end, in so many seconds at the most; whether the
        lock has taken it."""
        return await self._keep(f"answer.{name}", _document(answer), seconds)

    async def done(self, name: str, kept: Kept[Identity]) -> None:
        """The refresh `name` is done, and `kept` is what became of it.

        A process that stood still may have looked for it before: the note tells it. What the lock
        cannot take others make of the answer, which stays there then.
        """
        is_left = kept.reference is not None  # what is in a store can be read there
        if not is_left:
            encoded = self._codec.encode(kept.session)
            is_left = await self._keep(f"newest.{kept.session.id}", encoded, self._remembered)
        if is_left:
            await self._keep(f"answer.{name}", _DONE, NOTED)

    async def leave_use(self, kept: Kept[Identity]) -> None:
        """When the session was last seen, for other processes to find (`last_use`).

        The time alone: who saw the use may not know of a refresh, whose successor is left beside.
        """
        if kept.reference is None:
            used_at = b"%d" % (kept.session.last_seen_at or 0)
            await self._keep(f"used.{kept.session.id}", used_at, self._remembered)

    async def forget(self, name: str) -> None:
        """Nothing came of the refresh token that was presented here, or it is of no more use."""
        if self._memory is not None:
            memory = self._memory
            await _tried(lambda: memory.forget(f"answer.{name}"))

    async def newest(self, session_id: str) -> OIDCSession[Identity] | None:
        """What became of the session by the last refresh that any process left lately."""
        encoded = await self._kept(f"newest.{session_id}")
        return None if encoded is None else self._read(encoded).session

    async def last_use(self, session_id: str) -> int | None:
        """When any process last saw the session, in seconds since the epoch."""
        seconds = await self._kept(f"used.{session_id}")
        return None if seconds is None else int(seconds)

    async def aclose(self) -> None:
        """Closes the connections that the lock made for itself."""
        if isinstance(self._lock, Closes):
            await self._lock.aclose()

    async def _run(self, name: str, sealed: Callable[[], Awaitable[bytes]], turn: Turn) -> bytes:
        if self._yielding is not None:
            return await self._yielding.run_in_turn(name, sealed, turn)
        async with turn():
            return await self._lock.run_exclusive(name, sealed)

    async def _keep(self, name: str, content: bytes, seconds: int) -> bool:
        """Whether nothing is left to be kept."""
        if self._memory is None:
            return True
        memory, sealed = self._memory, self._sealed(name, content)
        return await _tried(lambda: memory.keep(name, sealed, seconds))

    async def _kept(self, name: str) -> bytes | None:
        if self._memory is None:
            return None
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            sealed = await settled(self._memory.kept(name))
            return None if sealed is None else self._opened(name, sealed)

    def _sealed(self, name: str, content: bytes) -> bytes:
        return self._sealer.seal(content, name=name).encode()

    def _opened(self, name: str, sealed: bytes) -> bytes:
        try:
            return self._sealer.open(sealed.decode(), name=name)
        except OIDCError as error:
            raise _unreadable(error) from None

    def _read(self, written: bytes) -> Kept[Identity]:
        head, _, encoded = written.rpartition(b"\n")
        try:
            return Kept(self._codec.decode(encoded), _reference(head) if head else None)
        except OIDCError as error:
            raise _unreadable(error) from None


async def _tried(call: Callable[[], Awaitable[None] | None]) -> bool:
    """Best effort: this process goes on with what it has in its own memory."""
    try:
        await settled(call())
    except Exception as error:
        _log.warning("the refresh lock cannot keep what it was given: %s", type(error).__name__)
        return False
    return True


def _written(encoded: bytes, reference: SessionReference | None) -> bytes:
    """The reference's secret, where there is one, and the session as JSON without line breaks."""
    return encoded if reference is None else reference.secret.hex().encode() + b"\n" + encoded


def _reference(head: bytes) -> SessionReference:
    return SessionReference(bytes.fromhex(head.decode()))


def _document(answer: KeptAnswer) -> bytes:
    response = answer.response
    members = {
        "access_token": response.access_token,
        "token_type": "Bearer",
        "id_token": response.id_token,
        "refresh_token": response.refresh_token,
        "expires_in": response.expires_in,
        "scope": None if response.scope is None else " ".join(response.scope),
        "session_state": response.session_state,
    }
    return json.dumps({"received_at": answer.received_at, "response": members}).encode()


def _answer(document: bytes) -> KeptAnswer:
    kept = parse_json(document)
    if isinstance(kept, dict) and "sent_at" in kept:
        explanation = "another process has presented the refresh token and may still be answered"
        raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
    if isinstance(kept, dict) and "done" in kept:
        explanation = "another process has refreshed the session while this one stood still"
        raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
    if not isinstance(kept, dict) or not isinstance(received_at := kept["received_at"], int):
        raise _unreadable(SessionError(Code.SESSION_MALFORMED))
    return KeptAnswer(TokenResponse.parse(kept["response"]), received_at)


def _unreadable(error: OIDCError) -> SessionError:
    explanation = f"another process wrote what this one cannot read ({error.code})"
    return SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
