"""What a request does with its session, by the session's times alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fastapi_oidc import OIDCSession, OIDCSettings, StandardIdentity, Tokens
from fastapi_oidc.flows.resume import Decision, decide
from fastapi_oidc.flows.revocation import end_of

NOW, LIFETIME, MARGIN, IDLE = 1_800_000_000, 28_800, 30, 600
POLICY = OIDCSettings(
    issuer="https://op.test",
    client_id="app",
    client_secret="s" * 32,
    cookie_secret="c" * 32,
    base_url="https://app.test",
    refresh_margin=MARGIN,
).policy()
KEEP, REFRESH, END = Decision.KEEP, Decision.REFRESH, Decision.END


def a_session(
    expires_in: int | None = 300, *, refresh_token: str | None = "again", issued_after: int = 0
) -> OIDCSession[StandardIdentity]:
    """A session whose access token was issued `issued_after` seconds after the login."""
    expires_at = None if expires_in is None else NOW + issued_after + expires_in
    return OIDCSession(
        id="session-1",
        issuer="https://op.test",
        client_id="app",
        sub="alice",
        identity=StandardIdentity(sub="alice"),
        claims={},
        tokens=Tokens(
            id_token="", access_token="", refresh_token=refresh_token, expires_at=expires_at
        ),
        created_at=NOW,
        authenticated_at=NOW,
        refreshed_at=NOW + issued_after if issued_after else None,
        expires_at=NOW + LIFETIME,
    )


@pytest.mark.parametrize(
    ("after", "decision"),
    [
        (300 - MARGIN - 1, KEEP),
        (300 - MARGIN, REFRESH),
        (LIFETIME - 1, REFRESH),
        (LIFETIME, END),
    ],
)
def test_session_is_refreshed_from_the_margin_on(after: int, decision: Decision) -> None:
    assert decide(a_session(), POLICY, now=NOW + after) is decision


@pytest.mark.parametrize("issued_after", [0, 1000])
def test_access_token_is_used_for_half_of_its_life_at_least(issued_after: int) -> None:
    session = a_session(20, issued_after=issued_after)
    assert decide(session, POLICY, now=NOW + issued_after + 9) is KEEP
    assert decide(session, POLICY, now=NOW + issued_after + 10) is REFRESH


def test_without_a_margin_a_session_is_refreshed_at_the_end_of_its_access_token() -> None:
    policy = replace(POLICY, refresh_margin=0)
    assert decide(a_session(), policy, now=NOW + 299) is KEEP
    assert decide(a_session(), policy, now=NOW + 300) is REFRESH


@pytest.mark.parametrize("session", [a_session(None), a_session(refresh_token=None)])
def test_session_that_cannot_be_refreshed_lives_to_its_own_end(
    session: OIDCSession[StandardIdentity],
) -> None:
    assert decide(session, POLICY, now=NOW + LIFETIME - 1) is KEEP
    assert decide(session, POLICY, now=NOW + LIFETIME) is END


def test_session_ends_at_the_earliest_of_its_ends() -> None:
    session = a_session()
    assert end_of(session, replace(POLICY, session_lifetime=LIFETIME + 1)) == NOW + LIFETIME
    assert end_of(session, replace(POLICY, session_lifetime=LIFETIME - 1)) == NOW + LIFETIME - 1
    idle = replace(POLICY, idle_timeout=IDLE)
    assert end_of(session, idle) == NOW + IDLE, "idle since the login"
    seen = session.model_copy(update={"last_seen_at": NOW + 1000})
    assert end_of(seen, idle) == NOW + 1000 + IDLE
    seen_late = session.model_copy(update={"last_seen_at": NOW + LIFETIME - 1})
    assert end_of(seen_late, idle) == NOW + LIFETIME
