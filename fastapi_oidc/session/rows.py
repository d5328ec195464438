"""The row: all that is known of one session, one value in the store.

    idle(n) --take--> taken(n) --record--> answered(n) --finish--> idle(n + 1)
    taken(n) --finish--> idle(n + 1)        a step-up, and a row that is no session
    taken(n) --release--> idle(n)           answered(n) keeps its answer
    taken(n) --refuse--> ended              the provider has refused the token
    any --end--> ended

`n` is the generation: how often the row was finished. `take` makes one attempt of a process the
owner. Only the owner presents the refresh token, and it renews the row meanwhile. Another attempt
may take the row, also with an answer, when two things are true: the owner has not renewed the row
for LEASE_SECONDS, and the attempt has watched the row for WATCH_SECONDS without a change. The first
answer of a generation is for every attempt. A row that has ended stays as it is, except that a
sign-out replaces the reason.

Tokens for other APIs and logins under way are rows too: `content` is their result.
Every function here is pure; `docs/decisions/017-one-row-for-each-session.md` says what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from pydantic import ConfigDict, TypeAdapter

from fastapi_oidc.protocol.encoding import read_stored
from fastapi_oidc.session.model import EndReason

LEASE_SECONDS: Final = 12.0
"""Seconds without a renewal, by the store's clock, after which an owner may be dead."""

WATCH_SECONDS: Final = 4.5
"""Seconds for which an attempt must have watched an unchanged row, to take it from an owner. Within
them a live owner writes again after an outage of the store, or a jump of the store's clock.
"""


_AS_TEXT: Final = ConfigDict(ser_json_bytes="utf8", val_json_bytes="utf8", extra="forbid")


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The `body` of a successful response, which came at `received_at` (seconds since the epoch).

    With `api` the access token is for that API, and only the other tokens belong to the session.
    """

    __pydantic_config__: ClassVar = _AS_TEXT

    received_at: int
    body: bytes = field(repr=False)
    api: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every process knows of one session.

    `owner` is the attempt that presents the refresh token of this `generation`, "" without one.
    `answer` is the token endpoint's response to it, until the next generation is stored. `content`
    is the session; it is empty while only the cookie has it. `ended` says why the session has
    ended. Copies of the session's cookie from before the generation `epoch` are refused: the user
    has signed in again since, or has been idle. `secret` is the digest of the secret in the
    session's cookie.

    `keeps_grant`: it has ended by a login whose tokens the provider may end with its own.
    `expires_at` is the session's absolute end, and `last_seen_at` its last use; both are in seconds
    since the epoch.
    """

    __pydantic_config__: ClassVar = _AS_TEXT

    generation: int = 0
    owner: str = ""
    answer: TokenAnswer | None = field(default=None, repr=False)
    content: bytes = field(default=b"", repr=False)
    ended: EndReason | None = None
    epoch: int = 0
    secret: str = field(default="", repr=False)
    keeps_grant: bool = False
    expires_at: int = 0
    last_seen_at: int = 0

    def encode(self) -> bytes:
        """The row with its secrets, to be sealed."""
        return _ROW.dump_json(self, exclude_defaults=True)

    @staticmethod
    def decode(encoded: bytes) -> Row:
        """Read the result of `encode`; raises SessionError (session.store_unavailable)."""
        return read_stored(_ROW, encoded)


_ROW: Final = TypeAdapter(Row)


def row_key(id: str) -> str:
    """The key of the row of a session."""
    return f"session:{id}"


def take(row: Row, age: float, base: Row, owner: str, watched: float) -> Row:
    """The row after the attempt `owner` asks for it, `age` seconds after its last change.

    The attempt has watched the row for `watched` seconds, in which the row did not change. `base`
    is the row of the generation to refresh, as the attempt knows it, and replaces the row of an
    earlier generation. The attempt has taken the row if the result has its `owner`. If the store
    has lost the session of `base`, nobody takes the row.
    """
    if row.ended or row.generation > base.generation or _is_lost(row, base):
        return row
    if row.generation < base.generation or row == Row():
        row = replace(base, last_seen_at=max(row.last_seen_at, base.last_seen_at))
    elif row.owner not in ("", owner):
        if age < 0:
            return replace(row)  # the store's clock was set back: written again, its age is known
        if age < LEASE_SECONDS or watched < WATCH_SECONDS:
            return row
    return replace(row, owner=owner)


def renew(row: Row, generation: int, owner: str) -> Row:
    """The row, written again, if it is still the owner's."""
    return replace(row) if _is_owned(row, generation, owner) else row


def record(row: Row, base: Row, received: TokenAnswer) -> Row:
    """The row with the response to its refresh token, unless it has one or has moved on.

    The response counts even if another attempt has taken the row since: the token is used up.
    """
    if _is_lost(row, base):
        return row
    row = base if row == Row() else row
    if row.ended or row.generation != base.generation or row.answer:
        return row
    return replace(row, answer=received)


def finish(row: Row, base: Row, result: Row) -> Row:
    """The row with `result`, unless it has ended or another attempt was first."""
    if _is_lost(row, base):
        return row
    row = base if row == Row() else row
    if row.ended or row.generation != base.generation:
        return row
    epoch, last_seen_at = max(row.epoch, result.epoch), max(row.last_seen_at, result.last_seen_at)
    generation = base.generation + 1
    return replace(result, generation=generation, epoch=epoch, last_seen_at=last_seen_at)


def release(row: Row, generation: int, owner: str, *, forget: bool = False) -> Row:
    """The row for the next attempt; `forget` drops a response that cannot be read."""
    if not _is_owned(row, generation, owner):
        return row
    return replace(row, owner="", answer=None if forget else row.answer)


def refuse(row: Row, generation: int, reason: EndReason) -> Row:
    """The ended row after the provider's refusal; unchanged if another attempt got a response."""
    if row.generation != generation or row.answer:
        return row
    return end(row, reason)


def end(row: Row, reason: EndReason, *, expires_at: int = 0, keeps_grant: bool = False) -> Row:
    """The ended row, without tokens. The first reason counts, unless the user signs out.

    `signed_out` replaces another reason, because then no other response may change the cookie: the
    user has signed out, or in again.
    """
    if row.ended and (reason != "signed_out" or row.ended == reason):
        return row
    expires_at = max(row.expires_at, expires_at)
    return Row(
        generation=row.generation, ended=reason, keeps_grant=keeps_grant, expires_at=expires_at
    )


def end_generation(row: Row, base: Row, reason: EndReason) -> Row:
    """The ended row, unless it has a later generation than `base`."""
    is_later = row.generation > base.generation
    return row if is_later else end(row, reason, expires_at=base.expires_at)


def touch(row: Row, age: float, at: int, base: Row) -> Row:
    """The row with a later `last_seen_at`; `base` if the store has none.

    The row of a live owner is not written, because its age is the owner's lease.
    """
    if row.ended or (row.owner and age < LEASE_SECONDS) or at <= row.last_seen_at:
        return row
    return replace(row if row != Row() else replace(base, content=b""), last_seen_at=at)


def refuse_copies(row: Row, last_seen_at: int) -> Row:
    """The row without a cookie that leads to it, unless it was used after `last_seen_at`."""
    if row.ended or not row.content or row.last_seen_at > last_seen_at:
        return row
    return replace(row, epoch=row.generation + 1) if row.epoch <= row.generation else row


def _is_lost(row: Row, base: Row) -> bool:
    """Whether the store has lost a session; what only a cookie has can be written again."""
    return bool(base.content) and not row.content


def _is_owned(row: Row, generation: int, owner: str) -> bool:
    return not row.ended and row.owner == owner and row.generation == generation
