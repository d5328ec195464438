"""Endings on Redis: one key for each session id, sid and sub that a record names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Self

from pydantic import TypeAdapter

from fastapi_oidc.errors import Code
from fastapi_oidc.session.endings import (
    Ending,
    RevocationRecord,
    digest,
    digests_of,
    keys_of_record,
    reason_of,
)
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX, Client, client_of
from fastapi_oidc.session.redis.connections import DEFAULT_TIMEOUT, Connections
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.stores import unavailable_as

# A value is "<provider>", as 0.1.0 wrote it, or "<provider> <application> <reason>".
_JOIN: Final = Script("""
local kept = redis.call('GET', KEYS[1]) or '0'
local provider, application, reason = string.match(kept, '^(%d+) ?(%d*) ?(.*)$')
provider = math.max(tonumber(provider), tonumber(ARGV[1]))
application = tonumber(application) or 0
if tonumber(ARGV[2]) >= application then
  application = tonumber(ARGV[2])
  reason = ARGV[3]
end
local value = string.format('%d', provider)
if application > 0 then value = string.format('%d %d %s', provider, application, reason) end
local ends = math.max(tonumber(ARGV[4]), redis.call('EXPIRETIME', KEYS[1]))
redis.call('SET', KEYS[1], value, 'EXAT', string.format('%d', ends))
""")
_REASON: Final[TypeAdapter[EndReason]] = TypeAdapter(EndReason)


class RedisRevocationStore:
    """Endings that any number of processes share; a session is looked up with one command."""

    def __init__(
        self, client: Client, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.connections, self.prefix = Connections(client, timeout), prefix

    @classmethod
    def from_url(
        cls, url: str, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT
    ) -> Self:
        """A store with a bounded pool of its own, for a URL as `RedisSessionStore` takes it."""
        return cls(client_of(url), prefix=prefix, timeout=timeout)

    async def revoke(self, record: RevocationRecord, /) -> None:
        """Keeps the record; raises SessionError (session.revocation_unavailable)."""
        args = [*Ending.of(record), record.expires_at]
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            for name in ending_names(self.prefix, map(digest, keys_of_record(record))):
                await self.connections.run_script(_JOIN, [name], args)

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        """Whether a record covers it; raises SessionError (session.revocation_unavailable)."""
        return await self.ended_by(session) is not None

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """The reason of a record that covers it; raises SessionError as `is_revoked`."""
        names = ending_names(self.prefix, digests_of(session))
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            return reason_in(session, await self.connections.values(names))

    async def aclose(self) -> None:
        """Closes the pool that `from_url` made; a client that was given is left alone."""
        await self.connections.aclose()


def ending_names(prefix: str, digests: Iterable[str]) -> list[str]:
    """The Redis keys of endings, in the form that 0.1.0 used."""
    return [f"{prefix}revoked:{digest}" for digest in digests]


def reason_in(session: OIDCSession[Identity], values: Sequence[bytes | None]) -> EndReason | None:
    """Why `session` is over, by the values of the keys that `ending_names` gives for it."""
    if not any(values):
        return None
    return reason_of(session, [None if value is None else _ending_in(value) for value in values])


def _ending_in(value: bytes) -> Ending:
    """Raises ValueError for what no version has written."""
    provider, *rest = value.decode().split(" ")
    if not rest:
        return Ending(int(provider))
    application, reason = rest
    return Ending(int(provider), int(application), _REASON.validate_python(reason))
