"""The sessions of an application: found, begun, used and ended.

A session in a store has a row from its login. A session in a cookie has one from its first refresh,
sign-out or (with `idle_timeout`) use; its cookie is a copy. Every copy is judged by the row and by
the revocations.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from typing import Final, NamedTuple, Self, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, SessionError
from fastapi_oidc.events import Announcer
from fastapi_oidc.flows.endings import Ending, Endings
from fastapi_oidc.session import revocations, rows, session_cookie
from fastapi_oidc.session.cells import Cells, Seen, Unreadable
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import AnySession, EndReason
from fastapi_oidc.session.rows import Row, row_key
from fastapi_oidc.session.session_cookie import CookieForm, Copy, SessionCodec

READ_TOGETHER: Final = 32
"""Number of listed sessions that are read at the same time."""

ANY_EPOCH: Final = 1 << 60

_SEALED_OTHERWISE: Final = (
    "the session cookie {name} was not sealed with it, so its user has to sign in again. Use the "
    "same secret in every process and deployment, and to rotate it keep the old one as the "
    "second. If another application on this host has cookies of the same names, give each a `name`"
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A session that can be stored, with its encoded content and the value of its cookie."""

    session: AnySession
    content: bytes = field(repr=False)
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Live:
    """A session that neither its row nor a revocation has ended, and the copy that led to it.

    Its times are the caller's to check.

    `cookie` is the value of its cookie if that has been made already.
    """

    session: AnySession
    seen: Seen = field(repr=False)
    copy: Copy = field(repr=False)
    cookie: str = field(default="", repr=False)


ENDED_CODES: Final[Mapping[EndReason, Code]] = {
    "expired": Code.SESSION_EXPIRED,
    "revoked": Code.SESSION_REVOKED,
    "ended_by_provider": Code.SESSION_REVOKED,
    "signed_out": Code.SESSION_SIGNED_OUT,
}


class Over(NamedTuple):
    """A session that has ended, and the copy that led to it.

    `session` is a state of it, if one is known. `keeps_grant` is that of its row. `is_refused`: the
    session may continue, but not for this copy, which is from before a step-up. `by` is the error
    that has ended it, where that is known.
    """

    copy: Copy
    reason: EndReason
    session: AnySession | None = None
    keeps_grant: bool = False
    is_refused: bool = False
    by: OIDCError | None = None

    @classmethod
    def of(cls, copy: Copy, row: Row) -> Self | None:
        """The end of the session that `copy` leads to, if its row has ended."""
        return cls(copy, row.ended, copy.session, row.keeps_grant) if row.ended else None


Found: TypeAlias = Live | Over | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sessions:
    """Everything that a process does with sessions and their store.

    `in_store`: rows have the sessions, and cookies only lead to them. Methods raise SessionError
    (session.store_unavailable) when the store fails.
    """

    cells: Cells
    form: CookieForm
    names: CookieNames
    codec: SessionCodec
    clock: Clock
    announcer: Announcer
    endings: Endings
    in_store: bool

    @property
    def is_in_memory(self) -> bool:
        """Whether the sessions are in the memory of this process alone."""
        return self.in_store and self.cells.store.is_in_memory

    def copy_in(self, cookies: Mapping[str, str]) -> Copy | None:
        """The content of the session cookie; None without one, or if it cannot be read."""
        value = cookies.get(self.names.session)
        try:
            return self.form.open(value) if value else None
        except SessionError as error:
            if error.code is Code.SESSION_SEAL_BROKEN:
                advice = _SEALED_OTHERWISE.format(name=self.names.session)
                self.announcer.advise("cookie_secret", advice)
            return None

    async def judge(self, copy: Copy, known: Live | None = None) -> Found:
        """The newest state of the session that `copy` leads to, by its row and revocations."""
        if over := self._ended_here(copy):
            return over
        seen = None if known is None else known.seen
        seen, values = await self.cells.see(row_key(copy.id), copy.keys, seen)
        return await self.judged(copy, seen, values, known)

    async def judge_again(self, known: Live) -> Found:
        """Like `judge`, for a session that the caller has found or made."""
        found = await self.judge(known.copy, known)
        if isinstance(found, Live) and found.session.generation < known.session.generation:
            return known  # of a cookie, and the store has lost its row
        return found

    async def judge_beside(
        self, copy: Copy, other: str, known: Live | None, known_other: Seen | None
    ) -> tuple[Found, Seen]:
        """Like `judge`; also the row of `other`, read in the same round trip."""
        over, seen = self._ended_here(copy), None if known is None else known.seen
        seen, (value, *values) = await self.cells.see(row_key(copy.id), [other, *copy.keys], seen)
        beside = self.cells.seen(other, value, known_other)
        return over or await self.judged(copy, seen, values, known), beside

    def _ended_here(self, copy: Copy) -> Over | None:
        """The end that only this process knows, if it does.

        It is asked for before the row is read, because the store may take the end meanwhile.
        """
        row = self.endings.here.get(copy.id)
        return None if row is None else Over.of(copy, row)

    async def judged(
        self, copy: Copy, seen: Seen, values: Sequence[bytes], known: Live | None = None
    ) -> Found:
        """Like `judge`, with its row and the `values` of its keys."""
        found = self.live(copy, seen, known=known)
        if not isinstance(found, Live):
            return found
        if found.session is not copy.session:  # whose keys may be others by now
            keys = revocations.keys_of(found.session)
            if keys != copy.keys:
                values = await self.cells.read(keys)
        reason = revocations.reason_in(found.session, values) if any(values) else None
        return found if reason is None else Over(copy, reason, found.session)

    def live(self, copy: Copy, seen: Seen, cookie: str = "", known: Live | None = None) -> Found:
        """What `copy` and its row say together; the revocations are another question."""
        row, session = seen.row, copy.session
        if row.ended:
            return Over.of(copy, row)
        if over := self._ended_here(copy):
            return over
        if copy.secret and not compare_digest(session_cookie.digest_of(copy.secret), row.secret):
            return None
        if copy.epoch < row.epoch:
            return Over(copy, "signed_out", session, is_refused=True)
        if known is not None and known.seen is seen:
            return known
        if row.content and (session is None or row.generation > session.generation):
            session = self._opened(row.content)
        if session is None:
            return None
        if row.last_seen_at > (session.last_seen_at or 0):
            session = session.model_copy(update={"last_seen_at": row.last_seen_at})
        return Live(session, seen, copy, cookie)

    def prepare(self, session: AnySession) -> Prepared:
        """`session`, ready to be stored.

        Raises ConfigurationError for an identity of another type, and CookieTooLarge.
        """
        content = self.codec.encode(session)
        cookie = "" if self.in_store else self.form.seal(session, content, 0, b"")
        return Prepared(session, content, cookie)

    def base_of(self, live: Live) -> Row:
        """The row of this generation. A cookie has its session, whatever the store has."""
        session = live.session
        if self.in_store:
            return live.seen.row
        return Row(generation=session.generation, epoch=session.epoch, expires_at=session.last_end)

    def row_of(self, prepared: Prepared, live: Live) -> Row:
        """The row for the next generation of `live`."""
        session = prepared.session
        return Row(
            content=prepared.content,
            epoch=session.epoch,
            secret=live.seen.row.secret,
            expires_at=session.last_end,
            last_seen_at=session.last_seen_at or 0,
        )

    async def begin(self, prepared: Prepared) -> Live:
        """Store the session of a new login."""
        session, seen = prepared.session, Seen()
        keys, ends = revocations.keys_of(session), session.last_end
        if not self.in_store:
            copy = Copy(session.id, keys, session.generation, ends, session)
            return Live(session, seen, copy, prepared.cookie)
        secret = os.urandom(session_cookie.SECRET_BYTES)
        digest, now = session_cookie.digest_of(secret), self.clock.now()
        row = Row(content=prepared.content, secret=digest, expires_at=ends)
        await self.cells.change(
            list_key(keys[0]), lambda value: revocations.with_id(value, session.id, ends, now)
        )
        seen = await self.cells.move(row_key(session.id), lambda *_: row, seen)
        return Live(session, seen, Copy(session.id, keys, 0, ends, secret=secret))

    async def touch(self, live: Live) -> Live | Over:
        """Record that the session is used now, unless it has ended.

        While the store fails, the next request does it.
        """
        now, session, base = self.clock.now(), live.session, self.base_of(live)
        with suppress(SessionError):
            seen = await self.cells.move(
                row_key(live.session.id),
                lambda row, age: rows.touch(row, age, now, base),
                live.seen,
            )
            found = self.live(live.copy, seen)
            if isinstance(found, Over):
                return found
            # Another request may have refreshed the session meanwhile: its token is used up.
            is_later = isinstance(found, Live) and found.session.generation > session.generation
            live = found if isinstance(found, Live) and is_later else replace(live, seen=seen)
        session = live.session.model_copy(update={"last_seen_at": now})
        return replace(live, session=session, cookie="")

    async def refuse_copies(self, live: Live) -> bool:
        """Let no cookie lead to the session any more, unless another request has used it.

        The result says whether none does.
        """
        last_seen_at = live.session.last_seen_at or 0
        seen = await self.cells.move(
            row_key(live.session.id),
            lambda row, _: rows.refuse_copies(row, last_seen_at),
            live.seen,
        )
        return seen.row.epoch > seen.row.generation

    async def end(self, ending: Ending) -> Row:
        """End the session: at once in this process, and elsewhere as soon as the store has it.

        A failed write is announced and repeated. The result is the row that has ended, as far as it
        is known.
        """
        return await self.endings.end(self.cells, self.announcer, ending)

    def newest(self, session: AnySession | None, row: Row) -> AnySession | None:
        """The session of `row` if that is later than `session`."""
        found = self._opened(row.content) if row.content else None
        if found is None or (session is not None and found.generation <= session.generation):
            return session
        return found

    async def sessions_of(self, key: str) -> Sequence[AnySession]:
        """The sessions that have not ended of the user with this key of `revocations`."""
        self.require_rows("list sessions")
        (value,) = await self.cells.read([list_key(key)])
        ids = revocations.ids_in(value, self.clock.now())[-revocations.MOST_LISTED :]
        found: list[AnySession] = []
        for first in range(0, len(ids), READ_TOGETHER):
            some = await asyncio.gather(*map(self._find_listed, ids[first : first + READ_TOGETHER]))
            found += [each.session for each in some if isinstance(each, Live)]
            await asyncio.sleep(0)
        # The list is not sealed, the sessions are.
        return [each for each in found if key in revocations.keys_of(each)]

    async def _find_listed(self, id: str) -> Found:
        """The session; None if another secret sealed it, because nobody here can use it."""
        try:
            return await self.judge(Copy(id, (), ANY_EPOCH, 0))
        except Unreadable:
            return None

    def cookies(self, live: Live) -> tuple[CookieChange, ...]:
        """The cookie that leads to `live`, until its absolute end; none without the secret."""
        if self.in_store and not live.copy.secret:
            return ()
        max_age = max(0, live.session.expires_at - self.clock.now())
        return (self._cookie(self.cookie_of(live), max_age),)

    def cookie_of(self, live: Live) -> str:
        """The value of that cookie."""
        if live.cookie:
            return live.cookie
        content = b"" if self.in_store else self.codec.encode(live.session)
        return self.form.seal(live.session, content, live.seen.row.epoch, live.copy.secret)

    def clearing(self) -> tuple[CookieChange, ...]:
        """Delete the session cookie."""
        return (self._cookie(None, 0),)

    def needs_cookie(self, live: Live) -> bool:
        """Whether the browser needs another cookie than the one that it has sent."""
        return not self.form.leads_to(live.copy, live.session, live.seen.row.epoch)

    def _cookie(self, value: str | None, max_age: int) -> CookieChange:
        names = self.names
        return CookieChange(name=names.session, value=value, max_age=max_age, secure=names.secure)

    def _opened(self, content: bytes) -> AnySession | None:
        try:
            return self.codec.decode(content)
        except SessionError:  # written before the identity's type changed
            return None

    def require_rows(self, purpose: str) -> None:
        """Raise ConfigurationError (configuration.store_missing) without a session store."""
        if not self.in_store:
            explanation = f"only a session_store can {purpose}"
            raise ConfigurationError(Code.CONFIGURATION_STORE_MISSING, explanation)


def list_key(user_key: str) -> str:
    """The key of the list of a user's sessions."""
    return f"sessions:{user_key}"
