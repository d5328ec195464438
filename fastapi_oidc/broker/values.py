"""Values of one kind in the session store, sealed, and a list of them for each person."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from fastapi_oidc.broker.rules import OfPerson
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.session.cells import Seen
from fastapi_oidc.session.lists import ids_in, with_id
from fastapi_oidc.session.revocations import user_key
from fastapi_oidc.session.rows import Row

Value = TypeVar("Value", bound=OfPerson)


class Values(Generic[Value]):
    """Reads and moves values; any text may name one.

    Methods raise SessionError (session.store_unavailable) when the store fails.
    """

    def __init__(self, party: RelyingParty[Any], kind: type[Value]) -> None:
        self._party, self._cells, self._kind = party, party.sessions.cells, kind

    def key(self, name: str) -> str:
        """The key of the value's row."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:43]
        return f"{self._kind.__name__.lower()}:{digest}"

    def read(self, row: Row) -> Value | None:
        """The value in a row; None without one."""
        try:
            return self._kind.model_validate_json(row.content) if row.content else None
        except ValidationError:
            explanation = "another release of this library wrote the value"
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from None

    async def find(self, name: str) -> Value | None:
        """The value; None if there is none, or if it is long over."""
        seen, _ = await self._cells.see(self.key(name))
        return self.read(seen.row)

    async def move(self, name: str, rule: Callable[[Value | None], Value | None]) -> Value | None:
        """The value after the pure function `rule`, which returns the same object for no change."""

        def change(row: Row, _: float) -> Row:
            after = rule(found := self.read(row))
            if after is None or after is found or after == found:
                return row
            content = after.model_dump_json().encode()
            return Row(content=content, expires_at=after.until)

        seen: Seen = await self._cells.move(self.key(name), change)
        return self.read(seen.row)

    async def list(self, name: str, value: Value) -> None:
        """List the value for its person, until it ends."""
        now, key = self._party.clock.now(), self._list_key(value.issuer, value.sub)
        await self._cells.change(key, lambda ids: with_id(ids, name, value.until, now))

    async def of(self, issuer: str, sub: str) -> Sequence[Value]:
        """The person's values that have not reached their end, the oldest first."""
        (ids,) = await self._cells.read([self._list_key(issuer, sub)])
        keys = list(map(self.key, ids_in(ids, self._party.clock.now())))
        rows = [
            self._cells.seen(*each).row for each in zip(keys, await self._all(keys), strict=True)
        ]
        return [value for row in rows if (value := self.read(row)) and value.is_of(issuer, sub)]

    async def _all(self, keys: Sequence[str]) -> Sequence[bytes]:
        return await self._cells.read(keys) if keys else ()

    def _list_key(self, issuer: str, sub: str) -> str:
        return f"{self._kind.__name__.lower()}-of:{user_key(issuer, '', sub)}"
