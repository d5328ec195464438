"""One event for each call, with what it was and what it cost, and with nothing secret."""

import logging

import pytest

from fastapi_oidc.broker import AccessEvent
from fastapi_oidc.broker.guest import Call
from tests.oidc.broker.apis import Api, says
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import rigged
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.flows.steps import until


async def test_each_call_giving_and_withdrawing_are_one_event() -> None:
    async with rigged(api=Api(says(b"12345"))) as rig:
        await rig.guest.call("POST", "/x/../events?secret=1", content=b"123")
        [event] = rig.trail
        assert event.session_id == rig.session.id
        assert (event.route, event.method, event.path) == (NAME, "POST", "/events")
        assert (event.status, event.sent, event.received) == (200, 3, 5)
        assert event.at == rig.world.time.now
        assert event.seconds > 0
        assert (event.access_id, event.code) == (rig.access.id, None)
        await rig.broker.withdraw(rig.access)
        told = [event for event in rig.world.events if isinstance(event, AccessEvent)]
        assert [event.name[7:] for event in told] == ["given", "called", "withdrawn"]
        assert {(event.sub, event.machine) for event in told} == {("alice", "m1")}


async def test_what_is_refused_is_an_event_too() -> None:
    async with rigged() as rig:
        await rig.guest.get("/secrets")
        for path in ("/%zz", f"/events?{'a' * 8182}", f"/events?{'a' * 8183}"):
            await rig.guest.asks(path)
        await rig.guest.asks("/events", method="A" * 8192)
        await rig.browser.post("/auth/logout")
        await rig.guest.get()
        assert [(event.code, event.status, event.path) for event in rig.trail] == [
            ("broker.not_allowed", 403, "/secrets"),
            ("broker.request", 400, ""),
            (None, 200, "/events"),
            *[("broker.request", 400, "")] * 2,
            ("broker.signed_out", 401, "/events"),
        ]
        assert {(event.route, event.method) for event in rig.trail} == {(NAME, "GET"), ("", "")}


async def test_a_bad_chunk_ends_its_call_and_is_no_other_one() -> None:
    async with rigged() as rig:
        head = f"POST /events HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await rig.guest.writes(head.encode() + b"5\r\nhello\r\n", b"ZZ\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1
        await until(lambda: bool(rig.trail))
        assert [(event.path, event.code) for event in rig.trail] == [("/events", "broker.request")]
        assert not rig.api.received


async def test_what_guests_and_apis_do_wrong_is_in_no_other_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with rigged() as rig:
        await rig.guest.writes(b"GET\r\n\r\n")
        await rig.guest.asks("/events", "Upgrade: websocket", "Connection: upgrade")
        rig.api.answer = Stream()
        async with streaming(rig.guest) as parts:
            await rig.broker.withdraw(rig.access)
            assert await is_cut(parts)
        found = {record.name for record in caplog.records if record.name != "httpx"}
        assert found == {"fastapi_oidc.login", "fastapi_oidc.access"}


async def test_a_fault_of_the_broker_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async with rigged() as rig:
        monkeypatch.setattr(Call, "read", broken)
        assert (await rig.guest.get()).status_code == 500
    assert "RuntimeError: a fault" in caplog.text


async def test_nothing_of_a_call_is_secret_or_forges_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with rigged(api=Api(says(b"the answer")), allow=["POST /events", "GET /**"]) as rig:
        body = ["Content-Length: 8"]
        await rig.guest.asks("/events?q=the+query", *body, method="POST", body=b"the body")
        token, values = rig.api.received[0].token, f"{rig.access!r} {rig.broker.routes!r}"
        assert "method POST, path /events, status 200, sent 8, received 10, seconds" in caplog.text
        for secret in (token, "the+query", "the body", "the answer"):
            assert secret not in caplog.text + str(rig.world.events) + values
        for path in ("/a%0aaccess.called", "/a'b=1", "/a\\'"):
            await rig.guest.asks(path)
        assert all("\n" not in record.getMessage() for record in caplog.records)
