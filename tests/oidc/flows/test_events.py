"""Each event is one log line and one call of `on_event`, with when, to whom and why."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fastapi_oidc import Code, Event, EventName, OIDCSession, SessionError
from fastapi_oidc.events import Announcer, refusal
from fastapi_oidc.testing import ServerError
from tests.oidc.world import World, make_world

AT = 1_800_000_000
WARNINGS = {
    "login.refused",
    "front_channel_logout.refused",
    "session.refresh_postponed",
    "session.identity_not_updated",
    "session.not_removed",
    "session.removal_given_up",
    "session.cookie_withheld",
    "logout.return_refused",
    "logout.revocation_failed",
    "back_channel_logout.refused",
    "request.refused",
}


class Watched:
    """A world that knows the newest session that was loaded in it."""

    def __init__(self, **options: Any) -> None:
        self.sessions: list[OIDCSession[Any]] = []
        self.world: World = make_world(
            load_request_data=lambda context: self.sessions.append(context.session), **options
        )

    def last(self, name: str, *, named: bool = False) -> Event:
        """The last event of this name, which is of this moment; `named`: and of the session."""
        event = [event for event in self.world.events if event.name == name][-1]
        assert event.at == self.world.time.now
        session = self.sessions[-1] if named else None
        assert session is None or (event.sub, event.session_id) == (session.sub, session.id)
        return event


@pytest.mark.parametrize("name", EventName)
def test_event_is_one_record_in_the_logger_of_its_area(
    name: EventName, caplog: pytest.LogCaptureFixture
) -> None:
    event = Event(name, AT)
    with caplog.at_level(logging.INFO, logger="fastapi_oidc"):
        Announcer()(event)
    [record] = caplog.records
    assert record.getMessage() == str(name)
    assert record.name == f"fastapi_oidc.{name.split('.')[0]}"
    assert record.levelname == ("WARNING" if name in WARNINGS else "INFO")
    assert vars(record)["oidc_event"] is event


def test_line_of_the_log_has_no_line_break(caplog: pytest.LogCaptureFixture) -> None:
    event = Event(
        EventName.LOGIN_REFUSED,
        AT,
        sub="alice\nlogin.succeeded",
        session_id="session-1",
        sid="op-1",
        code=Code.TOKEN_REFUSED,
        explanation="it's over",
    )
    with caplog.at_level(logging.INFO, logger="fastapi_oidc"):
        Announcer().of("acme")(event)
    assert caplog.messages == [
        "login.refused registration='acme' sub='alice\\nlogin.succeeded' session='session-1'"
        " sid='op-1' code='token.refused' because=\"it's over\""
        f" see='{Code.TOKEN_REFUSED.link}'"
    ]


def test_refusal_has_what_its_error_says() -> None:
    error = SessionError(Code.SESSION_EXPIRED, "it is over", seconds=7)
    event = refusal(EventName.SESSION_ENDED, error, AT)
    assert (event.code, event.explanation) == (Code.SESSION_EXPIRED, "it is over (seconds=7)")
    assert error.is_announced


async def test_sign_out_and_its_return_are_announced() -> None:
    watched = Watched()
    browser = await watched.world.signed_in()
    watched.world.op.faults.put("revocation", ServerError(), times=9)
    begun = await browser.post("/auth/logout", follow_redirects=False)
    watched.last("logout.started", named=True)
    failed = watched.last("logout.revocation_failed")
    assert (failed.session_id, failed.code) == (watched.sessions[-1].id, Code.PROVIDER_STATUS)
    back = await browser.get(begun.headers["location"], follow_redirects=False)
    await browser.get(back.headers["location"], follow_redirects=False)
    watched.last("logout.returned")


async def test_back_channel_logout_names_user_and_sid() -> None:
    watched = Watched()
    await watched.world.signed_in()
    watched.world.time.advance(5)
    await watched.world.op.log_out("alice")
    event = watched.last("back_channel_logout.accepted")
    assert (event.sub, event.sid) == ("alice", watched.sessions[-1].sid)
