import pytest
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from fastapi_oidc.session.model import PublicSession, StandardIdentity, Tokens
from tests.oidc.session.examples import ALICE, a_session, a_transaction

TOKENS = Tokens(
    id_token="secret-id", access_token="secret-access", refresh_token="secret-refresh", expires_at=9
)


def test_a_session_cannot_be_changed() -> None:
    with pytest.raises(TypeError, match="OIDCSession cannot be changed: model_copy"):
        a_session().sub = "mallory"  # type: ignore[misc]  # the point of the test


def test_the_error_of_a_changed_token_does_not_quote_it() -> None:
    with pytest.raises(TypeError) as caught:
        TOKENS.access_token = "secret-1"  # type: ignore[misc]
    assert "secret-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("user", "session.identity"),
        ("email", "session.identity.email"),
        ("access_token", "session.tokens.access_token, and oidc.auth.session. sends one that .*"),
        ("user_id", "session.sub"),
    ],
)
def test_a_member_of_another_library_leads_to_ours(name: str, place: str) -> None:
    with pytest.raises(AttributeError, match=rf"a session has no '{name}'; it is {place}$"):
        getattr(a_session(), name)
    with pytest.raises(AttributeError, match=r"a session has no 'colour'$"):
        getattr(a_session(), "colour")  # noqa: B009


def test_no_secret_is_in_repr() -> None:
    text = repr(a_session(tokens=TOKENS)) + repr(a_transaction())
    assert "alice" in text
    for secret in ("secret-", "nonce-1", "verifier-1", "state-1", "pwd"):
        assert secret not in text


def test_a_dumped_session_fails_instead_of_giving_tokens_away() -> None:
    with pytest.raises(PydanticSerializationError, match=r"PublicSession\.of"):
        a_session(tokens=TOKENS).model_dump()
    with pytest.raises(PydanticSerializationError, match=r"PublicSession\.of"):
        a_session(tokens=TOKENS).model_dump_json()


def test_validation_errors_do_not_quote_their_input() -> None:
    with pytest.raises(ValidationError) as caught:
        Tokens.model_validate({"id_token": ["secret-id"], "access_token": "secret-access"})
    assert "secret-" not in str(caught.value)


def test_the_public_session_has_no_token_and_no_claim() -> None:
    session = a_session(tokens=TOKENS).model_copy(update={"session_state": "state-of-the-op"})
    public = PublicSession.of(session)
    assert public == PublicSession(
        is_authenticated=True,
        sub="alice",
        identity=ALICE,
        expires_at=session.expires_at,
        access_token_expires_at=9,
        session_state="state-of-the-op",
    )
    text = public.model_dump_json()
    assert "secret-" not in text
    assert "pwd" not in text


def test_without_a_session_nobody_is_signed_in() -> None:
    assert PublicSession.of(None) == PublicSession[object](is_authenticated=False)


def test_tokens_are_shown_by_no_accident() -> None:
    tokens = a_session().tokens
    for show in (dict, list, iter, tuple):
        with pytest.raises(TypeError, match="cannot be iterated"):
            show(tokens)
    assert "again" not in str(dict(a_session()))


def test_each_profile_claim_has_its_place_and_the_last_source_wins() -> None:
    profile = {
        "name": "Alice",
        "email": "a@example.com",
        "email_verified": True,
        "preferred_username": "al",
        "picture": "https://example.com/a.png",
    }
    first = {**profile, "name": "A", "nickname": "A", "sub": "mallory"}
    identity = StandardIdentity.from_claims("alice", first, {"name": "Alice"})
    assert identity.model_dump() == {"sub": "alice", **profile}


@pytest.mark.parametrize("name", ["name", "email", "preferred_username", "picture"])
def test_a_claim_of_another_type_counts_as_absent(name: str) -> None:
    identity = StandardIdentity.from_claims("alice", {name: ["x"]})
    assert identity == StandardIdentity(sub="alice")


def test_email_verified_must_be_a_boolean() -> None:
    assert StandardIdentity.from_claims("alice", {"email_verified": "true"}).email_verified is None
    assert StandardIdentity.from_claims("alice", {"email_verified": True}).email_verified is True
