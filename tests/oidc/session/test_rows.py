"""Every step of a row, from every state: who may refresh, what counts, and what an end leaves."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Final

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session import rows
from fastapi_oidc.session.rows import LEASE_SECONDS, WATCH_SECONDS, Row, TokenAnswer
from tests.oidc.session.examples import NOW

END: Final = NOW + 3600
ANSWER: Final = TokenAnswer(NOW, b"tokens")
MY_ANSWER: Final = TokenAnswer(NOW, b"mine")
NONE: Final = Row()
"""What a store without the row has."""

IDLE: Final = Row(generation=1, content=b"one", secret="digest", expires_at=END, last_seen_at=NOW)
TAKEN: Final = replace(IDLE, owner="other")
MINE: Final = replace(IDLE, owner="me")
ANSWERED: Final = replace(TAKEN, answer=ANSWER)
LATER: Final = replace(IDLE, generation=2, content=b"two")
OVER: Final = Row(generation=1, ended="signed_out", expires_at=END)
STATES: Final = [NONE, IDLE, TAKEN, MINE, ANSWERED, LATER, OVER]
RESULT: Final = Row(content=b"two", secret="digest", expires_at=END)


@pytest.mark.parametrize(
    ("row", "age", "owner"),
    [
        (IDLE, 0.0, "me"),
        (IDLE, -60.0, "me"),
        (MINE, 0.0, "me"),  # asked again, because the reply was lost
        (TAKEN, 0.0, "other"),
        (TAKEN, LEASE_SECONDS - 0.1, "other"),
        (TAKEN, LEASE_SECONDS, "me"),
        (TAKEN, -0.1, "other"),  # the age is not known after a clock was set back
        (ANSWERED, LEASE_SECONDS - 0.1, "other"),
        (ANSWERED, LEASE_SECONDS, "me"),  # and has the response
        (LATER, 60.0, ""),
        (OVER, 60.0, ""),
        (NONE, 0.0, ""),  # the row with the session is lost
    ],
)
def test_who_owns_a_row_after_asking_for_it(row: Row, age: float, owner: str) -> None:
    taken = rows.take(row, age, IDLE, "me", WATCH_SECONDS)
    assert taken.owner == owner
    assert replace(taken, owner=row.owner) == row, "nothing else changes"
    if row.owner and owner != row.owner:
        assert rows.take(row, age, IDLE, "me", WATCH_SECONDS - 0.1) is row, "not yet"


def test_a_row_whose_age_is_unknown_is_written_again() -> None:
    taken = rows.take(TAKEN, -5.0, IDLE, "me", WATCH_SECONDS)
    assert taken is not TAKEN, "so its age is known from now on"
    assert rows.take(taken, LEASE_SECONDS, IDLE, "me", WATCH_SECONDS).owner == "me"


OF_COOKIE: Final = Row(generation=1, expires_at=END)
"""The row of a session whose cookie has it."""


@pytest.mark.parametrize("row", [NONE, replace(IDLE, generation=0, owner="other", content=b"")])
@pytest.mark.parametrize("base", [OF_COOKIE, replace(OF_COOKIE, generation=0)])
def test_a_cookie_counts_before_an_earlier_row_and_where_there_is_none(row: Row, base: Row) -> None:
    taken = rows.take(row, 0.0, base, "me", WATCH_SECONDS)
    if row is NONE or base is OF_COOKIE:
        assert taken == replace(base, owner="me", last_seen_at=row.last_seen_at)
    else:
        assert taken is row


@pytest.mark.parametrize("base", [OF_COOKIE, replace(OF_COOKIE, generation=0)])
def test_a_row_that_is_lost_amid_a_refresh_is_written_again_if_a_cookie_has_the_session(
    base: Row,
) -> None:
    assert rows.record(NONE, base, ANSWER) == replace(base, answer=ANSWER)
    assert rows.finish(NONE, base, RESULT) == replace(RESULT, generation=base.generation + 1)
    in_row = replace(base, content=b"session")
    assert rows.record(NONE, in_row, ANSWER) is rows.finish(NONE, in_row, RESULT) is NONE


@pytest.mark.parametrize("row", STATES)
def test_only_the_owner_renews_and_releases(row: Row) -> None:
    assert (rows.renew(row, 1, "me") is not row) == (row is MINE)
    assert rows.renew(row, 1, "me") == row
    assert rows.release(row, 1, "me") == (IDLE if row is MINE else row)
    assert rows.renew(row, 0, "me") is row
    assert rows.release(row, 0, "me") is row


def test_a_response_stays_for_the_next_attempt_unless_it_cannot_be_read() -> None:
    assert rows.release(ANSWERED, 1, "other") == replace(IDLE, answer=ANSWER)
    assert rows.release(ANSWERED, 1, "other", forget=True) == IDLE


@pytest.mark.parametrize("row", STATES)
def test_the_first_response_to_a_generation_counts_whoever_owns_the_row(row: Row) -> None:
    answered = rows.record(row, IDLE, MY_ANSWER)
    if row in (IDLE, TAKEN, MINE):
        assert answered == replace(row, answer=MY_ANSWER)
    else:
        assert answered is row


@pytest.mark.parametrize("row", STATES)
def test_the_first_result_of_a_generation_counts_whoever_owns_the_row(row: Row) -> None:
    finished = rows.finish(row, IDLE, RESULT)
    if row in (IDLE, TAKEN, MINE, ANSWERED):
        assert finished == replace(RESULT, generation=2, last_seen_at=NOW)
        assert rows.finish(finished, IDLE, RESULT) is finished, "the reply was lost"
    else:
        assert finished is row


@pytest.mark.parametrize("row", STATES)
def test_a_refusal_ends_a_generation_without_a_response(row: Row) -> None:
    refused = rows.refuse(row, 1, "ended_by_provider")
    if row in (IDLE, TAKEN, MINE):
        assert refused == Row(generation=1, ended="ended_by_provider", expires_at=END)
    else:
        assert refused is row


@pytest.mark.parametrize("row", STATES)
def test_every_row_ends_and_keeps_no_token(row: Row) -> None:
    ended = rows.end(row, "revoked", expires_at=END)
    assert ended.ended == ("signed_out" if row is OVER else "revoked")
    assert (ended.answer, ended.content, ended.owner) == (None, b"", "")
    assert (ended.generation, ended.expires_at) == (row.generation, END)
    assert rows.end(ended, "expired", expires_at=END) is ended, "the first reason counts"
    assert rows.end(ended, "signed_out").ended == "signed_out", "unless the user signs out"


def test_no_step_shortens_the_life_of_an_end() -> None:
    assert rows.end(IDLE, "revoked", expires_at=END - 5).expires_at == END
    assert rows.end(IDLE, "revoked", expires_at=END + 5).expires_at == END + 5


@pytest.mark.parametrize("row", STATES)
def test_a_use_is_recorded_while_nobody_refreshes(row: Row) -> None:
    base = Row(generation=1, content=b"of the cookie", expires_at=END)
    used = rows.touch(row, 0, NOW + 1, base)
    if row.owner or row.ended:
        assert used is row
    elif row is NONE:
        assert used == Row(generation=1, expires_at=END, last_seen_at=NOW + 1)
    else:
        assert used == replace(row, last_seen_at=NOW + 1)
    assert rows.touch(used, 0, NOW, base) is used, "an earlier use changes nothing"
    if row.owner:
        late = rows.touch(row, LEASE_SECONDS, NOW + 1, base)
        assert late == replace(row, last_seen_at=NOW + 1), "the owner may still be alive"


def test_no_copy_leads_to_a_session_that_was_unused_whatever_happens_later() -> None:
    refused = rows.refuse_copies(IDLE, NOW)
    assert refused == replace(IDLE, epoch=IDLE.generation + 1)
    assert rows.finish(refused, refused, RESULT).epoch == refused.epoch
    assert rows.refuse_copies(IDLE, NOW - 1) is IDLE, "another request has used it"


Step = Callable[[Row], Row]
STEPS: Final[dict[str, Step]] = {
    "take": lambda row: rows.take(row, 0.0, IDLE, "me", 0.0),
    "take over": lambda row: rows.take(row, LEASE_SECONDS, IDLE, "third", WATCH_SECONDS),
    "renew": lambda row: rows.renew(row, 1, "me"),
    "record": lambda row: rows.record(row, IDLE, ANSWER),
    "finish": lambda row: rows.finish(row, IDLE, RESULT),
    "release": lambda row: rows.release(row, 1, "me"),
    "refuse": lambda row: rows.refuse(row, 1, "ended_by_provider"),
    "end": lambda row: rows.end(row, "signed_out"),
    "refuse copies": lambda row: rows.refuse_copies(row, NOW),
    "touch": lambda row: rows.touch(row, 0, NOW + 1, IDLE),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("row", STATES)
def test_a_step_may_be_repeated_because_its_reply_was_lost(row: Row, name: str) -> None:
    once = STEPS[name](row)
    assert STEPS[name](once) == once


def test_in_any_order_of_steps_an_end_and_a_generation_are_final() -> None:
    for order in permutations(STEPS, 4):
        row = IDLE
        for name in order:
            before, row = row, STEPS[name](row)
            assert row.generation >= before.generation
            assert row.ended or not before.ended
            is_final = row.ended or row.generation > before.generation
            assert is_final or not before.answer or row.answer == before.answer


@pytest.mark.parametrize("row", STATES)
def test_a_row_is_read_as_it_was_written(row: Row) -> None:
    answer = TokenAnswer(NOW, '{"a": "\xe9\n\0"}'.encode(), "api")
    row = replace(row, answer=answer, content=b"{}\n") if row.content else row
    assert Row.decode(row.encode()) == row


@pytest.mark.parametrize(
    "encoded",
    [
        *(b"", b"[]", b"null", b'{"answer": "x"}'),
        MINE.encode().replace(b"owner", b"hold"),
        OVER.encode().replace(b"signed_out", b"abducted"),
    ],
)
def test_a_row_of_another_release_is_not_taken_for_none(encoded: bytes) -> None:
    with pytest.raises(SessionError) as caught:
        Row.decode(encoded)
    assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
