"""Lists of session ids, one value for each user; a list forgets what has ended by its time."""

from __future__ import annotations

import json
from typing import Final

from fastapi_oidc.session.store import Cell

MOST_LISTED: Final = 1000
"""Maximum number of a user's sessions that are listed: the last ones to end."""


def with_id(encoded: bytes, id: str, expires_at: int, now: int) -> Cell:
    """The list with one more id, whose session ends at `expires_at` (seconds since the epoch).

    It is stored until the last of its sessions ends.
    """
    ids = {each: ends for each, ends in json.loads(encoded or b"{}").items() if ends > now}
    ids.pop(id, None)
    ids[id] = expires_at
    listed = dict(list(ids.items())[-MOST_LISTED:])
    return Cell(json.dumps(listed).encode(), max(listed.values()))


def ids_in(encoded: bytes, now: int) -> list[str]:
    """The ids of the sessions that have not expired, the oldest login first."""
    return [id for id, ends in json.loads(encoded or b"{}").items() if ends > now]
