from __future__ import annotations

import pytest

from fastapi_oidc.session.cookies import PENDING_SECONDS, CookieNames
from fastapi_oidc.session.logout_cookie import LogoutCookie, PendingLogout
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.examples import NOW, SECRET

NAMES = CookieNames("oidc", secure=True)
SEALER = KeyRing([SECRET]).sealer("logout")
LOGOUTS = LogoutCookie(SEALER, NAMES)
PENDING = PendingLogout(state="state-1", return_to="/bye", created_at=NOW)


def test_a_pending_logout_is_found_for_ten_minutes() -> None:
    change = LOGOUTS.begun(PENDING)
    cookies = {change.name: change.value or ""}
    assert change.max_age == PENDING_SECONDS == 600
    assert LOGOUTS.find(cookies, now=NOW + PENDING_SECONDS - 1) == PENDING
    assert LOGOUTS.find(cookies, now=NOW + PENDING_SECONDS) is None


@pytest.mark.parametrize(
    "value",
    ["", "garbage", SEALER.seal(b"{}", name=NAMES.logout)],
    ids=["empty", "garbage", "sealed but no logout"],
)
def test_what_is_no_pending_logout_finds_nothing(value: str) -> None:
    assert LOGOUTS.find({NAMES.logout: value}, now=NOW) is None
    assert LOGOUTS.find({}, now=NOW) is None


def test_an_ended_logout_is_forgotten() -> None:
    change = LOGOUTS.ended()
    assert (change.name, change.value) == (NAMES.logout, None)


@pytest.mark.parametrize("secure", [True, False])
def test_the_cookie_is_secure_where_the_application_is(secure: bool) -> None:
    logouts = LogoutCookie(SEALER, CookieNames("oidc", secure=secure))
    assert logouts.begun(PENDING).secure is logouts.ended().secure is secure


def test_the_state_is_not_in_repr() -> None:
    assert "state-1" not in repr(PENDING) + repr(LOGOUTS.begun(PENDING))
