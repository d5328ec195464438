"""Revocations of users and of sessions at the provider, and the lists of a user's sessions."""

import json

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.revocations import (
    ANY,
    MOST_LISTED,
    NO_SID,
    Revocation,
    added,
    by_application,
    ids_in,
    keys_of,
    reason_in,
    sid_key,
    stamps_in,
    user_key,
    with_id,
)
from tests.oidc.session.examples import NOW, User, a_session

APP = ("https://op.example.com", "app")
BY_PROVIDER = Revocation(NOW, "", "ended_by_provider")


def ended(
    session: OIDCSession[User], key: str, of: str, revocation: Revocation
) -> EndReason | None:
    """Why the session has ended, after one revocation under one key."""
    found = {key: added(b"", of, revocation)}
    return reason_in(session, [found.get(each, b"") for each in keys_of(session)])


def moved_on(sid: str | None = "second", *former: str) -> OIDCSession[User]:
    return a_session().model_copy(update={"sid": sid, "former_sids": former})


@pytest.mark.parametrize(
    ("session", "key", "of", "is_named"),
    [
        (a_session(), user_key(*APP, "alice"), ANY, True),
        (a_session(), user_key(*APP, "alice"), NO_SID, False),
        (a_session(sid=None), user_key(*APP, "alice"), NO_SID, True),
        (a_session(), user_key(*APP, "bob"), ANY, False),
        (a_session(), user_key("https://other.example.com", "app", "alice"), ANY, False),
        (a_session(), user_key("https://op.example.com", "other", "alice"), ANY, False),
        (a_session(), sid_key(*APP, "op-session-1"), ANY, True),
        (a_session(), sid_key(*APP, "op-session-1"), "alice", True),
        (a_session(), sid_key(*APP, "op-session-1"), "bob", False),
        (a_session(), sid_key(*APP, "op-session-2"), ANY, False),
        (moved_on("second", "first"), sid_key(*APP, "first"), ANY, True),
        (moved_on("third", "second", "first"), sid_key(*APP, "first"), "alice", True),
    ],
)
def test_what_a_revocation_names(
    session: OIDCSession[User], key: str, of: str, is_named: bool
) -> None:
    assert ended(session, key, of, by_application("revoked")) == ("revoked" if is_named else None)
    reason = "ended_by_provider" if is_named else None
    assert ended(session, key, of, BY_PROVIDER) == reason


def test_a_logout_token_ends_the_logins_that_are_not_later() -> None:
    key = user_key(*APP, "alice")
    for at, reason in ((NOW - 1, "ended_by_provider"), (NOW, "ended_by_provider"), (NOW + 1, None)):
        assert ended(a_session(authenticated_at=at), key, ANY, BY_PROVIDER) == reason


def test_an_older_logout_token_that_comes_late_takes_nothing_back() -> None:
    older = Revocation(NOW - 60, "", "ended_by_provider")
    assert older.merged(BY_PROVIDER) == BY_PROVIDER.merged(older) == BY_PROVIDER


def test_a_login_is_ordered_by_what_it_finds_and_by_no_clock() -> None:
    value = added(b"", ANY, by_application("revoked"))
    found = [value, b""]
    before = a_session(authenticated_at=NOW + 9999)
    after = before.model_copy(update={"prior_revocations": stamps_in(before, found)})
    assert (reason_in(before, found), reason_in(after, found)) == ("revoked", None)
    again = [added(value, ANY, by_application("signed_out")), b""]
    assert (reason_in(before, again), reason_in(after, again)) == ("signed_out", "signed_out")


def test_a_revocation_that_is_written_again_takes_no_later_one_back() -> None:
    """A login between the two does not count as one after them."""
    first, second = by_application("revoked"), by_application("revoked")
    value = added(added(b"", ANY, first), ANY, second)
    session = a_session()
    between = session.model_copy(
        update={"prior_revocations": stamps_in(session, [added(b"", ANY, first)])}
    )
    assert reason_in(between, [added(value, ANY, first), b""]) == "revoked"


def test_a_revocation_that_is_written_twice_ends_no_login_that_has_found_it() -> None:
    """A store repeats what it has written if it loses the reply."""
    session, value = a_session(), b""
    for revocation in (by_application("revoked"), by_application("revoked")):
        value = added(value, ANY, revocation)
        later = session.model_copy(update={"prior_revocations": stamps_in(session, [value, b""])})
        value = added(value, ANY, revocation)
        assert reason_in(later, [value, b""]) is None


def test_revocations_of_provider_and_application_are_kept_side_by_side() -> None:
    value = added(added(b"", ANY, by_application("revoked")), ANY, BY_PROVIDER)
    session = a_session()
    known = session.model_copy(update={"prior_revocations": stamps_in(session, [value, b""])})
    assert reason_in(session, [value, b""]) == "revoked"
    assert reason_in(known, [value, b""]) == "ended_by_provider"


@pytest.mark.parametrize("encoded", [b"x", b"[]", b"7", b'{"": 7}', b'{"": [1, 2, 3, 4]}'])
def test_a_value_of_another_release_is_not_taken_for_none(encoded: bytes) -> None:
    with pytest.raises(SessionError) as caught:
        reason_in(a_session(), [encoded])
    assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE


def test_keys_do_not_name_the_user() -> None:
    keys = keys_of(a_session())
    assert not [key for key in keys if "alice" in key or "op-session" in key or not key.isascii()]


def test_a_list_has_each_id_once_and_forgets_what_has_ended() -> None:
    value = with_id(with_id(b"", "one", NOW + 10, NOW).value, "two", NOW + 20, NOW).value
    assert ids_in(with_id(value, "one", NOW + 30, NOW).value, NOW) == ["two", "one"]
    assert ids_in(value, NOW + 10) == ["two"]
    assert list(json.loads(with_id(value, "three", NOW + 40, NOW + 10).value)) == ["two", "three"]


def test_a_list_does_not_grow_without_end() -> None:
    value = b""
    for number in range(MOST_LISTED + 1):
        value = with_id(value, str(number), NOW + 10, NOW).value
    assert ids_in(value, NOW) == [str(number) for number in range(1, MOST_LISTED + 1)]
