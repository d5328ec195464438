"""Stores as an application would write them: three methods, or two, and a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.revocations import RevocationRecord, RevocationStore
from fastapi_oidc.session.stores import SessionStore
from tests.oidc.session.examples import User


class DictionaryStore(SessionStore[User]):
    """Returns the very objects that it was given."""

    def __init__(self) -> None:
        self.rows: dict[str, OIDCSession[User]] = {}

    async def get(self, id: str, /) -> OIDCSession[User] | None:
        return self.rows.get(id)

    async def set(self, id: str, session: OIDCSession[User], /) -> None:
        self.rows[id] = session

    async def delete(self, id: str, /) -> None:
        self.rows.pop(id, None)


class ListOfRevocations(RevocationStore):
    """Searches its records."""

    def __init__(self) -> None:
        self.records: list[RevocationRecord] = []

    async def revoke(self, record: RevocationRecord, /) -> None:
        self.records.append(record)

    async def records_of(self, session: OIDCSession[Identity], /) -> Sequence[RevocationRecord]:
        return [record for record in self.records if record.names(session)]
