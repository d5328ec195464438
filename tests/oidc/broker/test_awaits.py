"""An end comes at each of the points where a call waits, and the call goes on afterwards."""

import asyncio
from contextlib import aclosing
from itertools import count
from typing import Any

import pytest

from fastapi_oidc.broker import Access
from fastapi_oidc.broker.route import Api
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import TWO_HOURS, Rig, another_broker, rigged, session_of, store_of
from tests.oidc.interleaving import Gate
from tests.oidc.suspensions import driven


async def receive() -> Any:
    await asyncio.sleep(0)
    return {"type": "http.request"}


SCOPE: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": "GET"}
SCOPE |= {"raw_path": b"/events", "query_string": b"", "headers": [(b"host", NAME.encode())]}


async def _down(*_: object) -> list[bytes]:
    raise OSError("down")


async def _store_down(rig: Rig, _: Access, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(store_of(rig), "read", _down)


ENDS: dict[str, Any] = {
    "withdrawn": lambda rig, access, _: rig.broker.withdraw(access),
    "withdrawn elsewhere": lambda rig, access, _: another_broker(rig)[1].withdraw(access),
    "revoked": lambda rig, access, _: rig.world.oidc.revoke(sub=access.sub),
    "store down": _store_down,
}


@pytest.mark.parametrize("end", ENDS)
async def test_no_request_begins_after_an_end_wherever_the_call_waits(end: str) -> None:
    begin, is_over = Api.handle_async_request, asyncio.Event()
    statuses = list[int]()

    async def noted(self: Api, request: Any) -> Any:
        assert not is_over.is_set(), "the request would begin after the end"
        return await begin(self, request)

    async def send(message: Any) -> None:
        if is_over.is_set():
            statuses.append(message.get("status", 0))
        await asyncio.sleep(0)

    async with rigged() as rig:
        for at in count(1):
            await rig.world.signed_in()
            session = await session_of(rig.world)
            access = await rig.broker.give(session, to="m2", routes=[NAME], until=TWO_HOURS)
            is_over.clear()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Api, "handle_async_request", noted)
                async with aclosing(rig.broker.app(access)) as app:
                    gate, asked = Gate(), app(SCOPE, receive, send)
                    call = asyncio.create_task(driven(asked, at, gate.passed))
                    reached = asyncio.create_task(gate.reached.wait())
                    await asyncio.wait([call, reached], return_when=asyncio.FIRST_COMPLETED)
                    if call.done():
                        reached.cancel()
                        break
                    await ENDS[end](rig, access, patch)
                    is_over.set()
                    gate.opened.set()
                    await call
    assert at > 8
    assert (503 if end == "store down" else 401) in statuses
    assert end != "withdrawn" or 200 not in statuses


async def test_a_server_that_raises_says_that_the_guest_has_left() -> None:
    async def gone(_: object) -> None:
        raise OSError

    async with rigged() as rig:
        for path in (b"/events", b"/secrets"):
            await rig.broker.app(rig.access)(SCOPE | {"raw_path": path}, receive, gone)
        assert [each.code for each in rig.trail] == ["broker.request", "broker.not_allowed"]
