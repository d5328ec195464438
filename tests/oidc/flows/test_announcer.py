"""An event is one line of the log, in its area's logger, and is given to the application."""

from __future__ import annotations

import logging

import pytest

from fastapi_oidc import Code, Event, EventName, SessionError
from fastapi_oidc.flows.events import Announcer, refused

AT = 1_800_000_000
WARNINGS = {
    "login.refused",
    "session.refresh_postponed",
    "session.identity_kept",
    "session.not_removed",
    "session.removal_given_up",
    "session.cookie_withheld",
    "logout.return_refused",
    "logout.revocation_failed",
    "back_channel_logout.refused",
    "request.refused",
}


@pytest.mark.parametrize("name", EventName)
def test_each_event_is_one_record_of_its_area(
    name: EventName, caplog: pytest.LogCaptureFixture
) -> None:
    event = Event(name, AT)
    with caplog.at_level(logging.INFO, logger="fastapi_oidc"):
        Announcer()(event)
    [record] = caplog.records
    assert (record.msg, record.args) == ("%s", (str(name),))
    assert record.name == f"fastapi_oidc.{name.split('.')[0]}"
    assert record.levelname == ("WARNING" if name in WARNINGS else "INFO")
    assert vars(record)["oidc_event"] is event


def test_a_line_has_what_is_known_and_no_line_break(caplog: pytest.LogCaptureFixture) -> None:
    whole = Event(
        EventName.LOGIN_REFUSED,
        AT,
        sub="alice\nlogin.succeeded",
        session_id="session-1",
        sid="op-1",
        code=Code.TOKEN_REFUSED,
        explanation="it's over",
    )
    with caplog.at_level(logging.INFO, logger="fastapi_oidc"):
        Announcer()(whole)
    assert caplog.messages == [
        "login.refused sub='alice\\nlogin.succeeded' session='session-1' sid='op-1'"
        " code='token.refused' because=\"it's over\""
    ]


def test_a_listener_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def listener(event: Event) -> None:
        heard.append(event)
        raise LookupError

    event = Event(EventName.LOGIN_STARTED, AT)
    with caplog.at_level(logging.ERROR, logger="fastapi_oidc"):
        Announcer(listener)(event)
    assert heard == [event]
    [record] = caplog.records
    assert record.name == "fastapi_oidc.login"
    assert record.getMessage() == "on_event raised for login.started"
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


def test_a_refusal_is_told_with_all_that_its_error_says_and_once() -> None:
    error = SessionError(Code.SESSION_EXPIRED, "it is over", seconds=7)
    assert refused(EventName.SESSION_ENDED, error, AT) == Event(
        EventName.SESSION_ENDED,
        AT,
        code=Code.SESSION_EXPIRED,
        explanation="it is over (seconds=7)",
    )
    assert error.is_announced is True
