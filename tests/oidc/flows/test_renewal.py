"""What of the provider's answer goes into the session: at login and at each refresh."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence, begun, reauthenticated, renewed
from fastapi_oidc.protocol.id_token import IdToken
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import OIDCSession, Tokens
from tests.oidc.session.examples import ALICE, NOW, User, a_session
from tests.oidc.world import Time, make_world

RECEIVED = NOW - 2
LIFETIME = 5000
DEFAULT = 600
CLAIMS: dict[str, JSON] = {"sub": "alice", "sid": "op-2", "name": "Alice"}
ID_TOKEN = IdToken(
    iss="https://login.example",
    sub="alice",
    aud=("app", "api"),
    azp="app",
    exp=NOW + 300,
    iat=NOW - 7,
    nonce="nonce-2",
    auth_time=NOW - 60,
    sid="op-2",
    acr=None,
    claims=CLAIMS,
)
ANSWER = TokenResponse(
    access_token="access-2",
    id_token="id-2",
    refresh_token="refresh-2",
    expires_in=300,
    scope=("openid",),
    session_state=None,
)
EVIDENCE = Evidence(ANSWER, ID_TOKEN, None, "state-2", RECEIVED)
LEAN = replace(ANSWER, id_token=None, refresh_token=None, expires_in=None, scope=None)


@pytest.fixture
def party() -> RelyingParty[Any]:
    settings = {"session_lifetime": LIFETIME, "default_access_token_lifetime": DEFAULT}
    party: RelyingParty[Any] = make_world(settings=settings, time=Time(NOW)).oidc.site.party
    return party


def before() -> OIDCSession[User]:
    tokens = Tokens(
        id_token="id-1",
        access_token="access-1",
        refresh_token="refresh-1",
        expires_at=NOW - 100,
        scope=("openid", "email"),
    )
    session = a_session(authenticated_at=NOW - 400, tokens=tokens)
    return session.model_copy(update={"session_state": "state-1", "generation": 3})


def answered(answer: TokenResponse, id_token: IdToken | None = None) -> Evidence:
    return Evidence(answer, id_token, None, answer.session_state, RECEIVED)


def test_a_login_begins_a_session_of_what_the_id_token_says(party: RelyingParty[Any]) -> None:
    session = begun(party, EVIDENCE, ID_TOKEN, ALICE)
    assert session == OIDCSession(
        id=session.id,
        issuer="https://login.example",
        client_id="app",
        sub="alice",
        identity=ALICE,
        claims=CLAIMS,
        tokens=Tokens(
            id_token="id-2",
            access_token="access-2",
            refresh_token="refresh-2",
            expires_at=RECEIVED + 300,
            scope=("openid",),
        ),
        sid="op-2",
        session_state="state-2",
        auth_time=NOW - 60,
        nonce="nonce-2",
        audiences=("app", "api"),
        azp="app",
        created_at=NOW,
        authenticated_at=NOW - 7,
        expires_at=NOW + LIFETIME,
    )
    assert len(session.id) == 22, "128 random bits"
    assert session.id != begun(party, EVIDENCE, ID_TOKEN, ALICE).id


def test_a_refresh_brings_tokens_claims_and_states_and_leaves_the_rest(
    party: RelyingParty[Any],
) -> None:
    session = before()
    after = renewed(party, session, EVIDENCE)
    changed = {
        "tokens": begun(party, EVIDENCE, ID_TOKEN, ALICE).tokens,
        "claims": CLAIMS,
        "sid": "op-2",
        "session_state": "state-2",
        "generation": 4,
        "refreshed_at": NOW,
    }
    assert after == session.model_copy(update=changed)


def test_what_a_refresh_leaves_out_stays_as_it_was(party: RelyingParty[Any]) -> None:
    session = before()
    after = renewed(party, session, answered(LEAN))
    tokens = session.tokens.model_copy(
        update={"access_token": "access-2", "expires_at": RECEIVED + DEFAULT}
    )
    changed = {"tokens": tokens, "generation": 4, "refreshed_at": NOW}
    assert after == session.model_copy(update=changed)


def test_an_id_token_without_sid_leaves_the_one_of_the_login(party: RelyingParty[Any]) -> None:
    silent = replace(ID_TOKEN, sid=None)
    assert renewed(party, before(), answered(ANSWER, silent)).sid == before().sid


@pytest.mark.parametrize("expires_in", [None, 0])
def test_without_expires_in_a_token_that_can_be_refreshed_has_the_default_lifetime(
    party: RelyingParty[Any], expires_in: int | None
) -> None:
    answer = replace(ANSWER, expires_in=expires_in)
    session = begun(party, answered(answer), ID_TOKEN, ALICE)
    assert session.tokens.expires_at == RECEIVED + DEFAULT


def test_without_expires_in_a_token_that_cannot_be_refreshed_has_no_end(
    party: RelyingParty[Any],
) -> None:
    session = begun(party, answered(LEAN), ID_TOKEN, ALICE)
    assert session.tokens.expires_at is None
    assert session.tokens.refresh_token is None


def test_without_scope_a_login_got_what_it_asked_for_and_without_an_id_token_none(
    party: RelyingParty[Any],
) -> None:
    session = begun(party, answered(LEAN), ID_TOKEN, ALICE)
    assert session.tokens.scope == ("openid", "profile", "email", "offline_access")
    assert session.tokens.id_token == ""
    assert renewed(party, before(), answered(ANSWER)).tokens.scope == ("openid",)


def test_a_session_authenticated_anew_is_compared_with_its_own_id_token() -> None:
    facts = {
        "auth_time": NOW - 60,
        "nonce": "nonce-2",
        "audiences": ("app", "api"),
        "azp": "app",
    }
    assert reauthenticated(before(), ID_TOKEN) == before().model_copy(update=facts)
