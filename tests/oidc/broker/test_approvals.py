"""A call that a route lists under `approve` waits for its person, and for nobody else."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from fastapi_oidc.broker import AccessEvent, Approval, Limits, guest
from fastapi_oidc.testing import sign_in
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import Rig, rigged
from tests.oidc.flows.steps import until
from tests.oidc.web.test_startup import start

BODY = b'{"title": "Lunch </pre><script>alert(1)</script> \xe2\x80\xae \xd1\x81\xd7\x90"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "POLL_SECONDS", 0.01)


def posted(rig: Rig) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(rig.guest.call("POST", "/events?a=1", content=BODY, headers=JSON))


@asynccontextmanager
async def waiting(**options: Any) -> AsyncIterator[tuple[Rig, Approval, asyncio.Task[Any]]]:
    """A call of the guest that waits for Alice."""
    async with rigged(approve=["POST /events"], **options) as rig:
        rig.world.app.include_router(rig.broker.router)
        call = posted(rig)
        yield rig, await asked(rig), call
        call.cancel()
        await asyncio.wait([call])


async def asked(rig: Rig, number: int = 1) -> Approval:
    """The newest call that waits for Alice, when so many have been told of."""
    await until(lambda: rig.world.event_names().count("access.approval_asked") >= number)
    return (await rig.broker.check(rig.access)).waiting[-1]


async def pressed(
    browser: httpx.AsyncClient, id: str, page: httpx.Response, label: str = "Approve", **more: str
) -> int:
    """The status of what the page's button sends for the call of this id."""
    [query] = re.findall(rf'<button formaction="([^"]+)">{label}<', page.text)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]+)"', page.text))
    return (await browser.post(f"/approvals/{id}{query}", data=fields | more)).status_code


async def test_an_approved_call_is_sent_once_and_byte_for_byte() -> None:
    async with waiting() as (rig, approval, call):
        assert not rig.api.received
        page = await rig.browser.get(f"/approvals/{approval.id}")
        for wrong in ("none", approval.id[:-1], approval.id + "x", approval.id[:65] + "x" * 16):
            assert await pressed(rig.browser, wrong, page) == 403
        assert await pressed(rig.browser, approval.id, page) == 200
        assert (await call).status_code == 200
        [request] = rig.api.received
        assert (request.method, request.target, request.body) == ("POST", "/events?a=1", BODY)
        assert request.header("content-type") == "application/json"
        for label in ("Approve", "Refuse"):
            assert await pressed(rig.browser, approval.id, page, label) == 403
        again = posted(rig)
        other = await asked(rig, 2)
        assert await pressed(rig.browser, approval.id, page) == 403
        assert (await rig.broker.check(rig.access)).waiting == (other,), "the same, with another id"
        assert (other.id != approval.id, other.body, len(rig.api.received)) == (True, BODY, 1)
        again.cancel()
        events = [event for event in rig.world.events if isinstance(event, AccessEvent)]
        told = [event for event in events if "approval" in event.name]
        assert [event.name[16:] for event in told] == ["asked", "decided", "asked"]
        about = [(event.approval, event.method, event.route, event.path) for event in told]
        assert about[:2] == [(approval.id, "POST", NAME, "/events")] * 2
        assert "Lunch" not in str(told)


async def test_the_page_shows_what_is_asked_and_the_body_does_nothing_there() -> None:
    async with waiting() as (rig, approval, _):
        page = await rig.browser.get(f"/approvals/{approval.id}")
        for shown in ("m1", "POST", f"{rig.api.url}/events?a=1", f"{len(BODY)} bytes"):
            assert shown in page.text
        assert "content-type: application/json" in page.text
        assert "Lunch &lt;/pre&gt;&lt;script&gt;alert(1)" in page.text
        assert "<script>" not in page.text
        assert "\u202e" not in page.text
        assert "\\u202e \\u0441\\u05d0&quot;}</pre>" in page.text, "a Cyrillic and a Hebrew letter"
        assert page.text.isascii()
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    ("is_refused", "status", "code"),
    [(True, 403, "broker.not_approved:"), (False, 401, "broker.withdrawn:")],
)
async def test_the_first_decision_counts_and_what_is_refused_or_withdrawn_is_not_sent(
    is_refused: bool, status: int, code: str
) -> None:
    async with waiting() as (rig, approval, call):
        page, accesses = await rig.browser.get(f"/approvals/{approval.id}"), rig.broker._accesses
        found = accesses.asked

        async def found_and_ended(session: Any, id: str) -> Any:
            result, accesses.asked = await found(session, id), found  # type: ignore[method-assign]
            if is_refused:
                assert await pressed(rig.browser, id, page, "Refuse") == 200
            else:
                await rig.broker.withdraw(rig.access)
            return result

        accesses.asked = found_and_ended  # type: ignore[method-assign]
        assert await pressed(rig.browser, approval.id, page) == status
        answer = await call
        assert (answer.status_code, answer.text.split()[0]) == (status, code)
        assert not rig.api.received
        assert rig.world.event_names().count("access.approval_decided") == is_refused


async def test_a_call_that_nobody_approves_is_refused_in_time() -> None:
    async with rigged(approve=["POST /events"], limits=Limits(seconds=0.2)) as rig:
        answer = await rig.guest.call("POST")
        assert (answer.status_code, answer.text[:15]) == (504, "broker.timeout:")
        assert not (await rig.broker.check(rig.access)).waiting
        assert not rig.api.received
        assert (await rig.guest.get()).status_code == 200, "this one is not listed"


async def test_an_old_authentication_is_stepped_up_first() -> None:
    async with waiting() as (rig, approval, call):
        earlier = await rig.browser.get(f"/approvals/{approval.id}")
        rig.world.time.advance(400)
        page = await rig.browser.get(f"/approvals/{approval.id}")
        assert (page.status_code, "step_up" in page.text) == (401, True)
        assert await pressed(rig.browser, approval.id, earlier) == 401
        page = await sign_in(rig.browser, f"/approvals/{approval.id}", user="alice")
        assert await pressed(rig.browser, approval.id, page) == 200
        assert (await call).status_code == 200
        assert [request.body for request in rig.api.received] == [BODY]


async def test_nobody_else_can_see_or_decide() -> None:
    async with waiting() as (rig, approval, _):
        other = await rig.world.signed_in("bob")
        assert (await other.get(f"/approvals/{approval.id}")).status_code == 403
        page = await rig.browser.get(f"/approvals/{approval.id}")
        assert await pressed(rig.browser, approval.id, page, csrf_token="forged") == 403
        assert await pressed(rig.world.browser(), approval.id, page) == 401
        assert await pressed(other, approval.id, page) == 403
        assert await rig.guest.asks(f"/approvals/{approval.id}", method="POST") == "403"
        assert (await rig.broker.check(rig.access)).waiting == (approval,)


async def test_what_waits_has_bounds() -> None:
    async with waiting(limits=Limits(approved_bytes=1000, concurrent=2)) as (rig, *_):
        answer = await rig.guest.call("POST", content=b"x" * 1001)
        assert (answer.status_code, answer.text[:17]) == (413, "broker.too_large:")
        other = posted(rig)
        await asked(rig, 2)
        answer = await rig.guest.get()
        assert (answer.status_code, answer.text[:12]) == (429, "broker.busy:")
        other.cancel()
        await until(lambda: len(rig.trail) == 3)
        assert len((await rig.broker.check(rig.access)).waiting) == 1, "those guests have left"


@pytest.mark.parametrize("end", ["withdrawn", "used up"])
async def test_nobody_is_asked_about_a_call_that_cannot_be_sent(end: str) -> None:
    async with rigged(approve=["POST /events"], limits=Limits(calls=1)) as rig:
        if end == "withdrawn":
            await rig.broker.withdraw(rig.access)
        else:
            await rig.guest.get()
        assert (await posted(rig)).status_code in (401, 429)
        assert "access.approval_asked" not in rig.world.event_names()


async def test_a_session_that_ends_after_the_decision_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with waiting() as (rig, approval, call):
        assert (await rig.guest.get()).status_code == 200, "the process has a token"
        page, accesses = await rig.browser.get(f"/approvals/{approval.id}"), rig.broker._accesses
        judge = accesses.judge

        async def judges_and_ends(*given: Any) -> Any:
            judged = await judge(*given)
            if approval.approved() in judged[0].waiting:  # the call sees the decision
                await rig.world.oidc.revoke(sub="alice")
            return judged

        monkeypatch.setattr(accesses, "judge", judges_and_ends)
        assert await pressed(rig.browser, approval.id, page) == 200
        assert (await call).text.startswith("broker.signed_out")
        assert [request.method for request in rig.api.received] == ["GET"]


async def test_an_application_without_the_page_is_told_at_its_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with rigged(approve=["POST /events"]) as rig:
        await start(rig.world.app)
        rig.world.app.include_router(rig.broker.router)
        await start(rig.world.app)
        assert caplog.text.count("Add the line: app.include_router(broker.router)") == 1
