from __future__ import annotations

import pytest
from pydantic import ValidationError

from fastapi_oidc.session.revocations import (
    Revocation,
    RevocationRecord,
    are_current,
    digests_of,
    end_record,
    expiry_of_record,
    keys_of_record,
)
from tests.oidc.session.examples import NOW, a_record, a_session

HOUR = 3600
APP = ("https://op.example.com", "app")
CLIENT = {"issuer": "https://op.example.com", "client_id": "app", "issued_at": NOW}


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"session_id": "session-1", "sid": "op-session-1"},
        {"session_id": "session-1", "sub": "alice"},
    ],
)
def test_a_record_names_a_session_or_what_the_provider_calls_it(names: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="a record names"):
        RevocationRecord(**CLIENT, **names, expires_at=NOW + 1)  # type: ignore[arg-type]


def test_a_record_has_the_reason_of_its_maker() -> None:
    assert a_record(made_by="provider").reason == "ended_by_provider"
    assert a_record(made_by="application").reason == "revoked"
    with pytest.raises(ValidationError, match="no other reason"):
        RevocationRecord(**CLIENT, sub="alice", expires_at=NOW + 1, reason="signed_out")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("session_lifetime", "record_lifetime"),
    [(60, 30 * 86_400), (30 * 86_400, 30 * 86_400), (90 * 86_400, 90 * 86_400)],
)
def test_a_record_outlives_sessions_of_an_earlier_longer_lifetime(
    session_lifetime: int, record_lifetime: int
) -> None:
    assert expiry_of_record(NOW, session_lifetime) == NOW + record_lifetime + HOUR


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        ({"session_id": "one"}, [("session", "one")]),
        ({"sid": "two"}, [(*APP, "sid", "two", "")]),
        ({"sub": "bob"}, [(*APP, "sub", "bob")]),
        (
            {"sid": "two", "sub": "bob"},
            [(*APP, "sid", "two", "bob"), (*APP, "sub", "bob", "without sid")],
        ),
    ],
)
def test_a_record_is_kept_under_the_keys_of_what_it_names(
    names: dict[str, str], keys: list[tuple[str, ...]]
) -> None:
    record = RevocationRecord(**CLIENT, **names, expires_at=NOW + 1)  # type: ignore[arg-type]
    assert list(keys_of_record(record)) == keys


def test_the_record_of_one_session_outlives_every_copy_of_its_cookie() -> None:
    record = end_record(a_session(), "signed_out", NOW + 5)
    assert (record.session_id, record.reason) == ("session-1", "signed_out")
    assert record.expires_at == a_session().expires_at + HOUR


def test_the_record_of_an_expired_session_outlives_a_response_under_way() -> None:
    for ended in (NOW, NOW - 1, NOW - HOUR):
        old = a_session(expires_at=ended)
        assert end_record(old, "signed_out", NOW).expires_at == NOW + HOUR


def test_revocations_of_both_makers_are_kept_side_by_side() -> None:
    provider, application = Revocation(provider=NOW), Revocation(stamp="one", reason="signed_out")
    both = Revocation(NOW, "one", "signed_out")
    assert application.merged(provider) == provider.merged(application) == both
    assert Revocation(provider=NOW - 1).merged(both) == both
    provider_at, stamp, reason = Revocation(stamp="two").merged(both)
    assert (provider_at, reason) == (NOW, "revoked")
    assert stamp not in ("one", "two")


def test_digests_are_current_until_the_sid_changes() -> None:
    digests = digests_of(a_session())
    assert are_current(digests, a_session())
    assert not are_current(digests, a_session(sid="another"))
    assert not are_current(digests, a_session(sid=None))
    assert not are_current((), a_session())
    assert are_current(digests_of(a_session(sid=None)), a_session(sid=None))
