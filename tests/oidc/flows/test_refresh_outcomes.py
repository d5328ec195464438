"""Which failures of a refresh end the session."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.flows.refresh_outcomes import is_final, name_of
from tests.oidc.session.examples import a_session


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (SessionError(Code.SESSION_FORBIDDEN), True),
        (SessionError(Code.SESSION_SIGNED_OUT), True),
        (SessionError(Code.SESSION_STORE_UNAVAILABLE), False),
        (SessionError(Code.SESSION_LOCK_UNAVAILABLE), False),
        (ProtocolViolation(Code.ID_TOKEN_SUBJECT), True),
        (ProtocolViolation(Code.JWS_KEY_MISSING), False),
        (ProviderError(Code.PROVIDER_STATUS), False),
    ],
    ids=lambda value: str(value.code) if isinstance(value, OIDCError) else "",
)
def test_a_word_about_the_session_ends_it_and_an_outage_does_not(
    error: OIDCError, ends: bool
) -> None:
    assert is_final(error) is ends


def test_each_refresh_of_a_session_has_a_name_of_its_own() -> None:
    session = a_session()
    successor = session.model_copy(update={"generation": 1})
    other = session.model_copy(update={"id": "session-2"})
    assert len({name_of(each) for each in (session, successor, other)}) == 3
    assert name_of(session) == name_of(session.model_copy(update={"sub": "bob"}))
