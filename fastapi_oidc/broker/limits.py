"""The bounds of calls, and the error of a call that is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi_oidc.errors import SessionError

POLL_SECONDS: Final = 1.0
"""Seconds between two looks at the access of a call that is under way: the longest time for which
a call goes on after another process has withdrawn the access or ended the session.
"""

UNSURE_SECONDS: Final = 5.0
"""Seconds for which a call goes on while the store does not say whether its access has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one access. Sizes are in bytes, and times in seconds.

    `calls` is the number of calls in all, and `concurrent` of those at a time in one process. A
    call ends after `seconds`, its wait for an approval included. A call that waits for an approval
    has a body of `approved_bytes` at most, waits for `approval_seconds`, and is approved by a
    person who authenticated in the last `recent_seconds`.
    """

    request_bytes: int = 16 * 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024
    calls: int = 10_000
    concurrent: int = 16
    seconds: float = 600
    approved_bytes: int = 64 * 1024
    approval_seconds: float = 300
    recent_seconds: int = 300


class Refused(SessionError):
    """A call of a guest that is not passed on, or an answer that is not."""
