"""Sessions on Redis: a row for each, a list of rows for each user, and their endings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, Self

from fastapi_oidc.errors import Code
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.endings import RevocationRecord, are_current, digest, user_key
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX, Client, client_of
from fastapi_oidc.session.redis.connections import DEFAULT_TIMEOUT
from fastapi_oidc.session.redis.revocation_store import (
    RedisRevocationStore,
    ending_names,
    reason_in,
)
from fastapi_oidc.session.redis.rows import SEEN_DIGITS, SEEN_START, RowCodec, seen_text
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.stores import RevocationStore, unavailable_as

# The user's list has the id of each row, scored by its end, and ends with the last of them.
_LIST: Final = Script("""
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIREAT', KEYS[1], redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
""")
_TOUCH: Final = Script(f"""
local head = redis.call('GETRANGE', KEYS[1], 0, {SEEN_START + SEEN_DIGITS - 1})
local seen = string.match(head, '^[sc](%d+)$')
if seen and seen < ARGV[1] then redis.call('SETRANGE', KEYS[1], {SEEN_START}, ARGV[1]) end
""")
# A row that was used while its successor was made keeps the moment of that.
_REPLACE: Final = Script(f"""
local head = redis.call('GETRANGE', KEYS[1], 0, {SEEN_START + SEEN_DIGITS - 1})
local seen, row = string.match(head, '^[sc](%d+)$'), ARGV[1]
if seen and seen > string.sub(row, {SEEN_START + 1}, {SEEN_START + SEEN_DIGITS}) then
  row = string.sub(row, 1, {SEEN_START}) .. seen .. string.sub(row, {SEEN_START + SEEN_DIGITS + 1})
end
if redis.call('SET', KEYS[1], row, 'XX', 'EXAT', ARGV[2]) then return 1 end
return 0
""")
MOST_LISTED: Final = 1000


class RedisSessionStore(Generic[Identity]):
    """Sessions that Redis drops at `session.expires_at`; has every ability of a session store.

    Rows are sealed with the `cookie_secret` of the `OIDC` object that the store is given to, and in
    the clear without one. `reads_clear_rows=False` refuses rows that nobody sealed (0.1.0 wrote
    those). Every method raises SessionError (session.store_unavailable,
    session.revocation_unavailable) when Redis cannot be asked.
    """

    def __init__(
        self,
        client: Client,
        identity_type: type[Identity],
        *,
        prefix: str = DEFAULT_PREFIX,
        reads_clear_rows: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._endings = RedisRevocationStore(client, prefix=prefix, timeout=timeout)
        self._connections, self._prefix = self._endings.connections, prefix
        self._rows = RowCodec(identity_type, reads_clear_rows=reads_clear_rows)

    @classmethod
    def from_url(
        cls,
        url: str,
        identity_type: type[Identity],
        *,
        prefix: str = DEFAULT_PREFIX,
        reads_clear_rows: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Self:
        """A store with a bounded pool of its own, for a URL as `redis.from_url` takes it.

        Also `redis+sentinel://host,host/service/0` and `redis+cluster://host,host`, and the same
        with `rediss` for TLS. Raises ConfigurationError (configuration.invalid) for another.
        """
        return cls(
            client_of(url),
            identity_type,
            prefix=prefix,
            reads_clear_rows=reads_clear_rows,
            timeout=timeout,
        )

    def bind(self, codec: SessionCodec[Any], sealer: Sealer, /) -> None:
        """From now on rows are sealed; the identity type stays the store's own."""
        self._rows.seal_with(sealer)

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """The session; None when unknown, over, or of an identity type from before."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row = await self._connections.run(lambda client: client.get(self._row(id)))
        return self._session(id, row)

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """Keeps `session`, and its place in its user's list."""
        user = digest(user_key(session.issuer, session.client_id, session.sub))
        name, row, ends = self._row(id), self._rows.encode(id, session), session.expires_at
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            # The row first: what is listed without a row is taken from the list.
            await self._connections.run(lambda client: client.set(name, row, exat=ends))
            await self._connections.run_script(_LIST, [self._list(user)], [ends, id])

    async def delete(self, id: str, /) -> None:
        """Forgets `id`."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._connections.run(lambda client: client.delete(self._row(id)))

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """Keeps `session` in place of what is there, with one command; False when nothing is."""
        args: list[bytes | int] = [self._rows.encode(id, session), session.expires_at]
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            return bool(await self._connections.run_script(_REPLACE, [self._row(id)], args))

    async def touch(self, id: str, at: int, /) -> None:
        """Keeps the moment of last use in the row, beside the session."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._connections.run_script(_TOUCH, [self._row(id)], [seen_text(at)])

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

    async def get_with_endings(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """The session and the reason of a record that covers it, with one wait."""
        names = [self._row(id), *ending_names(self._prefix, digests)]
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            row, *endings = await self._connections.values(names)
        session = self._session(id, row)
        if session is None:
            return None, None
        if not are_current(digests, session):
            return session, await self.ended_by(session)
        if not any(endings):
            return session, None
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            return session, reason_in(session, endings)

    def keeps_endings_of(self, store: RevocationStore, /) -> bool:
        """Whether `store` is this one, or a RedisRevocationStore with the same keys."""
        if store is self:
            return True
        if type(store) is not RedisRevocationStore:
            return False
        reached = self._connections.reach_the_same_as(store.connections)
        return reached and store.prefix == self._prefix

    async def revoke(self, record: RevocationRecord, /) -> None:
        """As `RedisRevocationStore.revoke`."""
        await self._endings.revoke(record)

    async def is_revoked(self, session: OIDCSession[Any], /) -> bool:
        """Whether a record covers `session`."""
        return await self._endings.is_revoked(session)

    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        """The reason of a record that covers `session`."""
        return await self._endings.ended_by(session)

    async def aclose(self) -> None:
        """Closes the pool that `from_url` made; a client that was given is left alone."""
        await self._connections.aclose()

    async def _many(self, ids: Sequence[str]) -> Sequence[bytes | None]:
        return await self._connections.values([self._row(id) for id in ids]) if ids else []

    def _session(self, id: str, row: bytes | None) -> OIDCSession[Identity] | None:
        return None if row is None else self._rows.decode(id, row)

    def _row(self, id: str) -> str:
        return f"{self._prefix}session:{id}"

    def _list(self, user: str) -> str:
        return f"{self._prefix}sessions_of:{user}"
