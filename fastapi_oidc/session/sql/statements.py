"""The statements of the table of sessions, made once, with named values."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from fastapi_oidc.session.sql.dialects import server_time
from fastapi_oidc.session.sql.tables import metadata, revocations, sessions
from fastapi_oidc.session.stores import MOST_LISTED

_row: Final = sessions.c

PURGED_AT_ONCE: Final = 1000
"""Maximum number of expired rows that one statement removes: it must not lock for long."""


def _removing_expired(table: sa.Table) -> sa.Executable:
    (key,) = table.primary_key.columns
    expired = sa.select(key).where(table.c.expires_at <= server_time()).limit(PURGED_AT_ONCE)
    chosen = expired.with_for_update(skip_locked=True)  # two processes remove different rows
    return sa.delete(table).where(key.in_(chosen)).returning(sa.literal_column("1"))


EXPIRED: Final = {table.name: _removing_expired(table) for table in metadata.sorted_tables}
_REVOKED: Final = sa.and_(
    revocations.c.key.in_(bindparam("digests", expanding=True)),
    revocations.c.expires_at > server_time(),
)
_IS_ALIVE: Final = _row.expires_at > server_time()
_CONTENT: Final = (_row.id, _row.last_seen_at, _row.content)
GET: Final = sa.select(*_CONTENT).where(_row.id == bindparam("row"), _IS_ALIVE)
FIND: Final = (
    sa.select(*_CONTENT, *revocations.c)
    .select_from(sessions.outerjoin(revocations, _REVOKED))
    .where(_row.id == bindparam("row"), _IS_ALIVE)
)
FIND_BY_SESSION_ID: Final = sa.select(*_CONTENT).where(
    _row.session_id == bindparam("name"), _IS_ALIVE
)
LIST: Final = (
    sa.select(*_CONTENT)
    .where(_row.user_digest == bindparam("user"), _IS_ALIVE)
    .order_by(_row.expires_at.desc())
    .limit(MOST_LISTED)
)
DELETE: Final = sa.delete(sessions).where(_row.id == bindparam("row"))
TOUCH: Final = (
    sa.update(sessions)
    .where(_row.id == bindparam("row"), _row.last_seen_at < bindparam("seen"))
    .values(last_seen_at=bindparam("seen"))
)
# A row that was used during its refresh keeps the time of that use.
_SEEN: Final = sa.case(
    (_row.last_seen_at > bindparam("seen"), _row.last_seen_at),
    else_=bindparam("seen"),
)
REPLACE: Final = (
    sa.update(sessions)
    .where(
        _row.id == bindparam("row"),
        _row.generation < bindparam("next"),
        _IS_ALIVE,
    )
    .values(
        generation=bindparam("next"),
        last_seen_at=_SEEN,
        expires_at=bindparam("ends"),
        content=bindparam("sealed"),
    )
    .returning(_row.id)
)
