"""Revocations on Redis: one key for each session id, sid and sub that a record names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Self

from pydantic import TypeAdapter

from fastapi_oidc.errors import Code
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.outage import unavailable_as
from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX, Client, client_of
from fastapi_oidc.session.redis.connections import Connections
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.revocations import (
    STAMP_LENGTH,
    Revocation,
    RevocationRecord,
    RevocationStore,
    digest,
    digests_of,
    first_reason,
    keys_of_record,
    stamps_in,
)
from fastapi_oidc.session.stores import DEFAULT_TIMEOUT

# `Revocation.merged`; a value is "<provider> <stamp> <reason>".
_MERGE: Final = Script(f"""
local earlier = redis.call('GET', KEYS[1]) or '0  '
local provider, stamp, reason = string.match(earlier, '^(%d+) (%S*) (.*)$')
provider = math.max(tonumber(provider), tonumber(ARGV[1]))
if ARGV[2] ~= '' then
  if stamp ~= '' and stamp ~= ARGV[2] then
    stamp = string.sub(redis.sha1hex(stamp .. ' ' .. ARGV[2]), 1, {STAMP_LENGTH})
  else stamp = ARGV[2] end
  reason = ARGV[3]
end
local expires = math.max(tonumber(ARGV[4]), redis.call('EXPIRETIME', KEYS[1]))
local value = string.format('%d %s %s', provider, stamp, reason)
redis.call('SET', KEYS[1], value, 'EXAT', string.format('%d', expires))
""")
_REASON: Final[TypeAdapter[EndReason]] = TypeAdapter(EndReason)


class RedisRevocationStore(RevocationStore):
    """Revocations that any number of processes share; a lookup is one command.

    Every method raises SessionError (session.revocation_unavailable) when Redis is unavailable.
    """

    def __init__(
        self, client: Client, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.connections, self._prefix = Connections(client, timeout), prefix

    @classmethod
    def from_url(
        cls, url: str, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT
    ) -> Self:
        """A store with a bounded pool of its own, for a URL as `RedisSessionStore` takes it."""
        return cls(client_of(url), prefix=prefix, timeout=timeout)

    async def revoke(self, record: RevocationRecord, /) -> None:
        """See `RevocationStore.revoke`."""
        args = [*Revocation.of(record), record.expires_at]
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            for name in revocation_names(self._prefix, map(digest, keys_of_record(record))):
                await self.connections.run_script(_MERGE, [name], args)

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """See `RevocationStore.ended_by`."""
        return reason_in(session, await self._values(session))

    async def stamps(self, session: OIDCSession[Identity], /) -> tuple[str, ...]:
        """See `RevocationStore.stamps`."""
        return stamps_in(_revocations_in(await self._values(session)))

    async def aclose(self) -> None:
        """Close the pool that `from_url` made; a client of the application stays open."""
        await self.connections.aclose()

    async def _values(self, session: OIDCSession[Identity]) -> Sequence[bytes | None]:
        names = revocation_names(self._prefix, digests_of(session))
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            return await self.connections.values(names)


def revocation_names(prefix: str, digests: Iterable[str]) -> list[str]:
    """The Redis keys of revocations."""
    return [f"{prefix}revoked:{digest}" for digest in digests]


def reason_in(session: OIDCSession[Identity], values: Sequence[bytes | None]) -> EndReason | None:
    """Why `session` has ended, by the values of its `revocation_names`.

    Raises SessionError (session.revocation_unavailable) for a malformed value.
    """
    return first_reason(session, _revocations_in(values)) if any(values) else None


def _revocations_in(values: Sequence[bytes | None]) -> list[Revocation | None]:
    with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
        return [None if value is None else _revocation_in(value) for value in values]


def _revocation_in(value: bytes) -> Revocation:
    provider, stamp, reason = value.decode().split(" ")
    return Revocation(int(provider), stamp, _REASON.validate_python(reason or "revoked"))
