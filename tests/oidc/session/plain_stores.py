"""What an application may write: stores whose methods are not async."""

from __future__ import annotations

from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.stores import SessionStore
from tests.oidc.session.examples import User


class PlainSessionStore(SessionStore[User]):
    """A dictionary."""

    def __init__(self) -> None:
        self.rows: dict[str, OIDCSession[User]] = {}

    def get(self, id: str, /) -> OIDCSession[User] | None:
        return self.rows.get(id)

    def set(self, id: str, session: OIDCSession[User], /) -> None:
        self.rows[id] = session

    def delete(self, id: str, /) -> None:
        self.rows.pop(id, None)


class PlainRevocationStore:
    """A list that is searched, as the rule is written."""

    def __init__(self) -> None:
        self.records: list[RevocationRecord] = []

    def revoke(self, record: RevocationRecord, /) -> None:
        self.records.append(record)

    def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        return any(_covers(record, session) for record in self.records)


def _covers(record: RevocationRecord, session: OIDCSession[Identity]) -> bool:
    same_client = (record.issuer, record.client_id) == (session.issuer, session.client_id)
    same_session = record.sid is None or record.sid == session.sid
    same_user = record.sub is None or record.sub == session.sub
    in_time = session.authenticated_at <= record.issued_at
    return same_client and same_session and same_user and in_time
