"""What a request does with its session, by the session's times alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fastapi_oidc.flows.relying_party import Policy
from fastapi_oidc.flows.resume import Decision, decide, end_of
from fastapi_oidc.flows.use import idle_end_of
from fastapi_oidc.session.model import OIDCSession
from tests.oidc.session.examples import LIFETIME, NOW, User, a_session

KEEP, RENEW, END = Decision.KEEP, Decision.RENEW, Decision.END
MARGIN = 30
POLICY = Policy("https://op.example.com", "app", (), refresh_margin=MARGIN)


def with_access_token(seconds: int | None, *, issued_after: int = 0) -> OIDCSession[User]:
    """A session whose access token was issued so long after the login, for so many seconds."""
    session = a_session()
    expires_at = None if seconds is None else NOW + issued_after + seconds
    changes = {
        "tokens": session.tokens.model_copy(update={"expires_at": expires_at}),
        "refreshed_at": NOW + issued_after if issued_after else None,
    }
    return session.model_copy(update=changes)


def decided(session: OIDCSession[User], after: int, policy: Policy = POLICY) -> Decision:
    return decide(session, policy, now=NOW + after)


@pytest.mark.parametrize(
    ("after", "decision"),
    [(300 - MARGIN - 1, KEEP), (300 - MARGIN, RENEW), (LIFETIME - 1, RENEW), (LIFETIME, END)],
)
def test_renews_from_the_margin_before_the_access_tokens_end_to_its_own(
    after: int, decision: Decision
) -> None:
    assert decided(with_access_token(300), after) is decision


@pytest.mark.parametrize("issued_after", [0, 1000])
def test_uses_an_access_token_for_half_of_its_life_at_least(issued_after: int) -> None:
    session = with_access_token(20, issued_after=issued_after)
    assert decided(session, issued_after + 9) is KEEP
    assert decided(session, issued_after + 10) is RENEW


def test_without_a_margin_renews_at_the_access_tokens_end() -> None:
    policy = replace(POLICY, refresh_margin=0)
    assert decided(with_access_token(300), 299, policy) is KEEP
    assert decided(with_access_token(300), 300, policy) is RENEW


def test_without_a_refresh_token_or_an_end_of_the_access_token_keeps_to_its_own_end() -> None:
    endless = with_access_token(None)
    session = with_access_token(300)
    tokens = session.tokens.model_copy(update={"refresh_token": None})
    unrenewable = session.model_copy(update={"tokens": tokens})
    for kept in (endless, unrenewable):
        assert decided(kept, LIFETIME - 1) is KEEP
        assert decided(kept, LIFETIME) is END


def test_ends_at_the_first_of_its_own_end_and_the_lifetime_of_the_settings() -> None:
    session = a_session()
    assert end_of(session, replace(POLICY, session_lifetime=LIFETIME + 1)) == NOW + LIFETIME
    assert end_of(session, replace(POLICY, session_lifetime=LIFETIME - 1)) == NOW + LIFETIME - 1


def test_idleness_counts_from_the_last_request_and_else_from_the_login() -> None:
    policy = replace(POLICY, idle_timeout=600)
    unseen = a_session()
    seen = unseen.model_copy(update={"last_seen_at": NOW + 1000})
    assert idle_end_of(unseen, policy) == end_of(unseen, policy) == NOW + 600
    assert idle_end_of(seen, policy) == end_of(seen, policy) == NOW + 1600
    assert idle_end_of(seen, POLICY) is None


def test_a_request_shortly_before_the_end_does_not_put_it_off() -> None:
    policy = replace(POLICY, idle_timeout=600)
    seen = a_session().model_copy(update={"last_seen_at": NOW + LIFETIME - 1})
    assert end_of(seen, policy) == NOW + LIFETIME
