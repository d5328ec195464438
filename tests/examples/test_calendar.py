"""examples/calendar runs: a page with the user's events, and work after the response."""

import re
import secrets

import httpx

from examples.calendar.__main__ import SIGN_IN_SCOPE, provider
from examples.calendar.application import application
from examples.calendar.calendar import calendar_api
from examples.local import settings
from fastapi_oidc.testing import sign_in, sign_in_sync
from tests.examples.programs import lines_of, new_browser, started

BASE_URL, CALENDAR = "https://app.test", "https://calendar.test"


async def test_the_page_has_the_events_of_its_user_and_counts_them_later() -> None:
    secret = secrets.token_urlsafe(32)
    op = provider(BASE_URL, secret)
    to_op = httpx.ASGITransport(op.app)
    chosen = settings(op.issuer, BASE_URL, client_secret=secret, scope=SIGN_IN_SCOPE)
    app = application(chosen, CALENDAR, transport=to_op)
    app.state.transport = httpx.ASGITransport(calendar_api(op.issuer, secret, to_op))
    app.state.seconds = 0
    async with op.browser(app, base_url=BASE_URL) as browser:
        page = await sign_in(browser, "/auth/login?return_to=/", user="alice")
        assert "Lunch with Bob" in page.text
        assert "Not counted yet." in page.text
        assert (await browser.post("/count")).status_code == 403
        [token] = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)
        await browser.post("/count", data={"csrf_token": token})
        assert "Counted: 2" in (await browser.get("/")).text


async def test_the_calendar_refuses_a_token_that_is_not_for_it() -> None:
    secret = secrets.token_urlsafe(32)
    op = provider(BASE_URL, secret)
    to_op = httpx.ASGITransport(op.app)
    form = {"grant_type": "client_credentials"}
    async with httpx.AsyncClient(transport=to_op, auth=("app", secret)) as http:
        token = (await http.post(f"{op.issuer}/token", data=form)).json()["access_token"]
    api = httpx.ASGITransport(calendar_api(op.issuer, secret, to_op))
    async with httpx.AsyncClient(transport=api, base_url=CALENDAR) as http:
        headers = {"Authorization": f"Bearer {token}"}
        assert (await http.get("/events", headers=headers)).status_code == 401
        assert (await http.get("/events")).status_code == 401


def test_one_command_starts_it() -> None:
    with started("examples.calendar") as process, new_browser() as browser:
        [line] = lines_of(process, 1)
        page = sign_in_sync(browser, line.split()[1], user="bob")
        assert "Lunch with Alice" in page.text
