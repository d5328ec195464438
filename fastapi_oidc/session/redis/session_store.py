"""Sessions on Redis: a row for each, its name by session id and by user, and revocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

from fastapi_oidc.errors import Code
from fastapi_oidc.session.codec import SealedRows, SessionCodec
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.outage import unavailable_as
from fastapi_oidc.session.records import RefreshRecords
from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX, Client, client_of
from fastapi_oidc.session.redis.records import RedisRefreshLock
from fastapi_oidc.session.redis.revocation_store import (
    RedisRevocationStore,
    reason_in,
    revocation_names,
)
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.revocations import RevocationStore, are_current, digest, user_key
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.stores import DEFAULT_TIMEOUT, MOST_LISTED, SessionStore

# A row is the mark of this format, the generation and the second of last use in ten digits each,
# and the sealed session. The unencrypted fields are compared and changed without the session.
_MARK: Final = b"s"
_DIGITS: Final = 10
_SEEN_START: Final = 1 + _DIGITS
_HEADER: Final = _SEEN_START + _DIGITS

# The user's list has the id of each row, scored by its end, and ends with the last of them.
_LIST: Final = Script("""
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIREAT', KEYS[1], redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
""")
_HEAD: Final = f"""
local head = redis.call('GETRANGE', KEYS[1], 0, {_HEADER - 1})
local generation, seen = string.match(head, '^s({"%d" * _DIGITS})({"%d" * _DIGITS})$')
"""
_TOUCH: Final = Script(
    _HEAD
    + f"if seen and seen < ARGV[1] then redis.call('SETRANGE', KEYS[1], {_SEEN_START}, ARGV[1]) end"
)
# A row that was used during its refresh keeps the time of that use.
_REPLACE: Final = Script(
    _HEAD
    + f"""
local row = ARGV[1]
if not generation or generation >= string.sub(row, 2, {_SEEN_START}) then return 0 end
if seen > string.sub(row, {_SEEN_START + 1}, {_HEADER}) then
  row = string.sub(row, 1, {_SEEN_START}) .. seen .. string.sub(row, {_HEADER + 1})
end
redis.call('SET', KEYS[1], row, 'EXAT', ARGV[2])
return 1
"""
)


class RedisSessionStore(SessionStore[Identity]):
    """Sessions that Redis drops at `session.expires_at`, with revocations and refresh records.

    Rows are sealed with the `cookie_secret` of the `OIDC` object that uses the store; before that,
    methods that read or write a session raise ConfigurationError (configuration.invalid). Every
    method raises SessionError (session.store_unavailable, session.revocation_unavailable) when
    Redis is unavailable.
    """

    records_last_use = returns_copies = True

    def __init__(
        self,
        client: Client,
        identity_type: type[Identity],
        *,
        prefix: str = DEFAULT_PREFIX,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._revocations = RedisRevocationStore(client, prefix=prefix, timeout=timeout)
        self._records = RedisRefreshLock(client, prefix=prefix, timeout=timeout)
        self._connections, self._prefix = self._revocations.connections, prefix
        self._contents = SealedRows(identity_type)

    @classmethod
    def from_url(
        cls,
        url: str,
        identity_type: type[Identity],
        *,
        prefix: str = DEFAULT_PREFIX,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Self:
        """A store with a bounded pool of its own, for a URL as `redis.from_url` takes it.

        Also `redis+sentinel://host,host/service/0` and `redis+cluster://host,host`, and the same
        with `rediss` for TLS. Raises ConfigurationError (configuration.invalid) for another.
        """
        return cls(client_of(url), identity_type, prefix=prefix, timeout=timeout)

    @property
    def revocations(self) -> RevocationStore:
        """The records on the same Redis, under the same prefix."""
        return self._revocations

    @property
    def records(self) -> RefreshRecords:
        """The records on the same Redis, under the same prefix."""
        return self._records

    def bind(self, codec: SessionCodec[Any], sealer: Sealer, /) -> None:
        """See `SessionStore.bind`; of several `OIDC` objects the first one seals, and all open."""
        self._contents.bind(sealer)

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """See `SessionStore.get`."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row = await self._connections.run(lambda client: client.get(self._row(id)))
        return self._session(id, row)

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """See `SessionStore.set`."""
        user = digest(user_key(session.issuer, session.client_id, session.sub))
        name, row, ends = self._row(id), self._encoded(id, session), session.expires_at
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            # The row first: an id without a row is removed from the list.
            await self._connections.run(lambda client: client.set(name, row, exat=ends))
            await self._connections.run_script(_LIST, [self._list(user)], [ends, id])
            index = self._index(session.id)
            await self._connections.run(lambda client: client.set(index, id, exat=ends))

    async def delete(self, id: str, /) -> None:
        """See `SessionStore.delete`."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row = await self._connections.run(lambda client: client.getdel(self._row(id)))
            if (session := self._session(id, row)) is not None:
                index = self._index(session.id)
                await self._connections.run(lambda client: client.delete(index))

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """See `SessionStore.replace`; one command."""
        args: list[bytes | int] = [self._encoded(id, session), session.expires_at]
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            return bool(await self._connections.run_script(_REPLACE, [self._row(id)], args))

    async def touch(self, id: str, at: int, /) -> None:
        """See `SessionStore.touch`; one command."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._connections.run_script(_TOUCH, [self._row(id)], [_digits(at).decode()])

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str, /
    ) -> Sequence[OIDCSession[Identity]]:
        """The user's sessions, the first to end first; the last thousand of them."""
        key = self._list(digest(user_key(issuer, client_id, sub)))
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            members = await self._connections.run(
                lambda client: client.zrange(key, -MOST_LISTED, -1)
            )
            ids = [member.decode() for member in members]
            rows = await self._many(ids)
            gone = [id for id, row in zip(ids, rows, strict=True) if row is None]
            if gone:
                await self._connections.run(lambda client: client.zrem(key, *gone))
        found = (self._session(id, row) for id, row in zip(ids, rows, strict=True))
        return [session for session in found if session is not None]

    async def find_by_session_id(
        self, session_id: str, /
    ) -> tuple[str, OIDCSession[Identity]] | None:
        """See `SessionStore.find_by_session_id`; two commands."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            found = await self._connections.run(lambda client: client.get(self._index(session_id)))
        if found is None:
            return None
        id = found.decode()
        session = await self.get(id)
        return None if session is None or session.id != session_id else (id, session)

    async def find(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """See `SessionStore.find`; one command."""
        names = [self._row(id), *revocation_names(self._prefix, digests)]
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row, *revocations = await self._connections.values(names)
        session = self._session(id, row)
        if session is None:
            return None, None
        if not are_current(digests, session):
            return session, await self._revocations.ended_by(session)
        return session, reason_in(session, revocations)

    async def aclose(self) -> None:
        """Close the pool that `from_url` made; a client of the application stays open."""
        await self._connections.aclose()

    async def _many(self, ids: Sequence[str]) -> Sequence[bytes | None]:
        return await self._connections.values([self._row(id) for id in ids]) if ids else []

    def _encoded(self, id: str, session: OIDCSession[Identity]) -> bytes:
        head = _digits(session.generation) + _digits(session.last_seen_at or 0)
        return _MARK + head + self._contents.seal(id, session)

    def _session(self, id: str, row: bytes | None) -> OIDCSession[Identity] | None:
        seen = b"" if row is None else row[_SEEN_START:_HEADER]
        if row is None or row[:1] != _MARK or not seen.isdigit():
            return None
        return self._contents.open(id, row[_HEADER:], int(seen))

    def _row(self, id: str) -> str:
        return f"{self._prefix}session:{id}"

    def _index(self, session_id: str) -> str:
        return f"{self._prefix}session_id:{session_id}"

    def _list(self, user: str) -> str:
        return f"{self._prefix}sessions_of:{user}"


def _digits(number: int) -> bytes:
    return b"%0*d" % (_DIGITS, number)
