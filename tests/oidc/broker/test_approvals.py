"""A call that a route lists under `approve` waits for its person, and for nobody else."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from fastapi_oidc import Code, SessionError
from fastapi_oidc.broker import Access, Approval, Limits, Refused, guest
from fastapi_oidc.broker.accesses import Rule
from fastapi_oidc.broker.rules import MOST_WAITING, decided, state_of
from fastapi_oidc.testing import sign_in
from tests.oidc.broker.rig import Rig, another_broker, rigged, session_of, store_of
from tests.oidc.flows.steps import until
from tests.oidc.interleaving import same_browser

BODY = b'{"title": "Lunch </pre><script>alert(1)</script> \xe2\x80\xae"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "LOOK_SECONDS", 0.01)


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
    return (await rig.broker.waiting(rig.session))[-1]


def form(page: httpx.Response, decision: str = "approve") -> dict[str, str]:
    """The fields of the page's form."""
    fields = dict(re.findall(r'name="(\w+)" value="([^"]+)"', page.text))
    return fields | {"decision": decision}


async def test_an_approved_call_is_sent_once_and_byte_for_byte() -> None:
    async with waiting() as (rig, approval, call):
        assert not rig.api.received
        page = await rig.browser.get(f"/approvals/{approval.id}")
        answer = await rig.browser.post(f"/approvals/{approval.id}", data=form(page))
        assert answer.status_code == 200
        assert (await call).status_code == 200
        [request] = rig.api.received
        assert (request.method, request.target, request.body) == ("POST", "/events?a=1", BODY)
        assert request.header("content-type") == "application/json"
        assert await rig.broker.waiting(rig.session) == []
        told = [event for event in rig.world.events if "approval" in event.name]
        assert [str(event.name) for event in told] == [
            "access.approval_asked",
            "access.approval_decided",
        ]
        assert "Lunch" not in str(told)


async def test_the_page_shows_what_is_asked_and_the_body_does_nothing_there() -> None:
    async with waiting() as (rig, approval, _):
        page = await rig.browser.get(f"/approvals/{approval.id}")
        digest = hashlib.sha256(BODY).hexdigest()
        for shown in ("m1", "POST", f"{rig.api.url}/events?a=1", f"{len(BODY)} bytes", digest):
            assert shown in page.text
        assert "content-type: application/json" in page.text
        assert "Lunch &lt;/pre&gt;&lt;script&gt;alert(1)" in page.text
        assert "<script>" not in page.text
        assert "\u202e" not in page.text
        assert "\\u202e" in page.text
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["X-Frame-Options"] == "DENY"


async def test_the_first_decision_counts_and_a_refused_call_is_not_sent() -> None:
    async with waiting() as (rig, approval, call):
        both = decided(await rig.broker.check(rig.access), approval, "refused")
        assert state_of(decided(both, approval, "approved"), approval) == "refused"
        page = await rig.browser.get(f"/approvals/{approval.id}")
        await rig.browser.post(f"/approvals/{approval.id}", data=form(page, "refuse"))
        with pytest.raises(Refused, match=r"broker\.not_approved"):
            await rig.broker.decide(rig.session, approval.id, approval.fingerprint, approve=True)
        answer = await call
        assert (answer.status_code, answer.text[:20]) == (403, "broker.not_approved:")
        assert not rig.api.received


async def test_a_call_that_nobody_approves_is_refused_in_time() -> None:
    async with rigged(approve=["POST /events"], limits=Limits(approval_seconds=0.2)) as rig:
        assert (await rig.guest.call("POST")).status_code == 403
        assert not (await rig.broker.check(rig.access)).waiting
        assert not rig.api.received
        assert (await rig.guest.get()).status_code == 200, "this one is not listed"


async def test_an_old_authentication_is_stepped_up_first() -> None:
    async with waiting(limits=Limits(approval_seconds=600)) as (rig, approval, call):
        rig.world.time.advance(400)
        page = await rig.browser.get(f"/approvals/{approval.id}")
        assert (page.status_code, "step_up" in page.text) == (401, True)
        with pytest.raises(SessionError) as caught:
            await rig.broker.decide(rig.session, approval.id, approval.fingerprint, approve=True)
        assert caught.value.code is Code.SESSION_STEP_UP_REQUIRED
        page = await sign_in(rig.browser, f"/approvals/{approval.id}", user="alice")
        await rig.browser.post(f"/approvals/{approval.id}", data=form(page))
        assert (await call).status_code == 200
        assert [request.body for request in rig.api.received] == [BODY]


async def test_nobody_else_can_see_or_decide() -> None:
    async with waiting() as (rig, approval, _):
        other = await rig.world.signed_in("bob")
        assert (await other.get(f"/approvals/{approval.id}")).status_code == 403
        bob = await session_of(rig.world, "bob")
        assert await rig.broker.waiting(bob) == []
        with pytest.raises(Refused, match=r"broker\.not_approved"):
            await rig.broker.decide(bob, approval.id, approval.fingerprint, approve=True)
        url, page = f"/approvals/{approval.id}", await rig.browser.get(f"/approvals/{approval.id}")
        forged = await rig.browser.post(url, data=form(page) | {"csrf_token": "forged"})
        assert forged.status_code == 403
        assert (await rig.world.browser().post(url, data=form(page))).status_code == 401
        assert await rig.guest.asks(url, method="POST") == "403"
        assert (await asked(rig)).state == "asked"


async def test_a_decision_is_about_exactly_what_was_shown_and_for_one_call() -> None:
    async with waiting() as (rig, approval, call):
        for wrong in ("", "0" * 64, hashlib.sha256(BODY).hexdigest()):
            with pytest.raises(Refused, match=r"broker\.not_approved"):
                await rig.broker.decide(rig.session, approval.id, wrong, approve=True)
        await rig.broker.decide(rig.session, approval.id, approval.fingerprint, approve=True)
        await call
        again = posted(rig)
        other = await asked(rig, 2)
        assert other.id != approval.id
        assert other.fingerprint == approval.fingerprint
        with pytest.raises(Refused, match=r"broker\.not_approved"):
            await rig.broker.decide(rig.session, approval.id, approval.fingerprint, approve=True)
        assert len(rig.api.received) == 1
        again.cancel()


@pytest.mark.parametrize("path", ["/Events", "/events/", "/events;v=1"])
async def test_another_spelling_of_the_path_waits_too(path: str) -> None:
    limits = Limits(approval_seconds=0.1)
    allow = ["POST /*", "POST /*/"]
    async with rigged(approve=["POST /events"], allow=allow, limits=limits) as rig:
        assert await rig.guest.asks(path, "Content-Length: 0", method="POST") == "403"
        assert rig.trail[0].code == "broker.not_approved"
        assert not rig.api.received


async def test_what_waits_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting(limits=Limits(approved_bytes=1000)) as (rig, *_):
        swap = store_of(rig).swap

        async def swap_later(*command: Any) -> Any:
            await asyncio.sleep(0)
            return await swap(*command)

        monkeypatch.setattr(store_of(rig), "swap", swap_later)
        answer = await rig.guest.call("POST", content=b"x" * 1001)
        assert (answer.status_code, answer.text[:17]) == (413, "broker.too_large:")
        others = [posted(rig) for _ in range(MOST_WAITING - 1)]
        await asked(rig, MOST_WAITING)
        assert (await posted(rig)).text.startswith("broker.busy:")
        for other in others:
            other.cancel()
        await until(lambda: len(rig.trail) == MOST_WAITING + 1)
        assert len(await rig.broker.waiting(rig.session)) == 1, "those guests have left"


async def test_an_access_that_ends_while_a_call_waits_ends_the_call() -> None:
    async with waiting() as (rig, approval, call):
        _, elsewhere = another_broker(rig)
        await elsewhere.withdraw(rig.access)
        with pytest.raises(Refused, match=r"broker\.not_approved"):
            await rig.broker.decide(rig.session, approval.id, approval.fingerprint, approve=True)
        assert (await call).text.startswith("broker.withdrawn")
        assert not rig.api.received


async def test_a_session_that_ends_after_the_decision_sends_nothing() -> None:
    async with waiting() as (rig, approval, call):
        assert (await rig.guest.get()).status_code == 200, "the process has a token"
        accesses = rig.broker._accesses
        change = accesses.change

        async def changes_and_ends(access: Access, rule: Rule, *arguments: Any) -> Access | None:
            changed = await change(access, rule, *arguments)
            if access is rig.access:  # the call has seen the decision
                await rig.world.oidc.revoke(sub="alice")
            return changed

        accesses.change = changes_and_ends  # type: ignore[method-assign]
        await rig.broker.decide(rig.session, approval.id, approval.fingerprint, approve=True)
        assert (await call).text.startswith("broker.signed_out")
        assert [request.method for request in rig.api.received] == ["GET"]


async def test_another_process_shows_and_decides() -> None:
    async with waiting() as (rig, approval, call):
        world, elsewhere = another_broker(rig)
        world.app.include_router(elsewhere.router)
        browser = same_browser(rig.browser, world)
        page = await browser.get(f"/approvals/{approval.id}")
        await browser.post(f"/approvals/{approval.id}", data=form(page))
        assert (await call).status_code == 200
