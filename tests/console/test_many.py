"""Several machines at once, and long work that everybody sees while it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import httpx
import pytest

from examples.console.changes import CHANGES
from examples.console.host import Host
from generated_vmm.transport import AsyncUnixChannel
from tests.console.browser import PATIENCE, Browser
from tests.console.machines import create
from tests.console.running import BOB, RunningConsole, signed_in


@pytest.fixture(scope="module")
def three(host: RunningConsole) -> RunningConsole:
    with signed_in(host) as alice:
        alice.open_until("demo Running", "/")
        for name in ("one", "two"):
            create(alice, name)
    return host


@pytest.fixture
def alice(three: RunningConsole) -> Iterator[Browser]:
    with signed_in(three) as browser:
        yield browser


def bulk(person: Browser, host: RunningConsole, change: str, *names: str) -> httpx.Response:
    fields = {"csrf_token": person.field("csrf_token"), "change": change, "confirmed": "yes"}
    return httpx.post(
        f"{host.url}/bulk",
        data={**fields, "machine": list(names)},
        cookies=person.cookies,
        headers={"accept": "text/html"},
        timeout=60,
    )


def test_each_of_the_chosen_machines_is_told(alice: Browser, three: RunningConsole) -> None:
    page = bulk(alice, three, "pause", "one", "two", "nobody").text
    assert "one: The machine is paused." in page
    assert "two: The machine is paused." in page
    assert "nobody: There is no such machine." in page
    again = bulk(alice, three, "pause", "one", "demo").text
    assert "one: " in again
    assert "one: The machine is paused." not in again
    assert "demo: The machine is paused." in again
    resumed = bulk(alice, three, "resume", "one", "two", "demo").text
    assert resumed.count(CHANGES["resume"].done) == 3


def test_what_asks_for_one_asks_for_many_without_script(
    alice: Browser, three: RunningConsole
) -> None:
    alice.open("/")
    token = alice.field("csrf_token")
    alice.post("/bulk", {"csrf_token": token, "change": "stop", "machine": "one"})
    assert "Stop one?" in alice.text
    alice.click("Yes: ")
    assert "one: " in alice.text
    alice.post("/bulk", {"csrf_token": token, "change": "delete", "machine": "two"})
    assert alice.status == 422


def test_a_viewer_changes_none_of_them(three: RunningConsole) -> None:
    with signed_in(three, BOB) as bob:
        bob.open("/")
        assert "The chosen machines" not in bob.text
        assert bulk(bob, three, "pause", "two").status_code == 403
        bob.open("/machines/two")
        assert "two Running" in bob.text


def test_long_work_is_seen_by_others_with_its_progress(
    alice: Browser, three: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = three.parts.monitors
    assert isinstance(host, Host)
    begun, over = threading.Event(), threading.Event()
    exchange = AsyncUnixChannel.exchange

    async def exchanged(channel, operation, seconds):  # type: ignore[no-untyped-def]
        answer = await exchange(channel, operation, seconds)
        if operation.path == "/snapshot/create":
            begun.set()
            await asyncio.to_thread(over.wait, PATIENCE)
        return answer

    monkeypatch.setattr(AsyncUnixChannel, "exchange", exchanged)
    alice.open("/machines/two/snapshots")
    fields = {"named_snapshot.name": "long"}
    thread = threading.Thread(target=alice.click, args=("Create snapshot", fields))
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        with signed_in(three, BOB) as bob:
            for _ in range(2):  # also after a reload
                bob.open("/")
                assert "Busy" in bob.text
                assert "snapshot long by Alice Admin since" in bob.text
                assert "(writes the memory)" in bob.text
                assert "<progress" in bob.body
    finally:
        over.set()
        thread.join()
    alice.open("/")
    assert "<progress" not in alice.body
