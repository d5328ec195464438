"""What happened is kept: through a kill, findable, exported, and not for ever."""

import asyncio
import csv
import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from examples.console.app import create_app
from examples.console.monitors import Monitors
from examples.console.past import COLUMNS, EXPORTED_EVENTS, as_csv
from examples.console.records import Event, Person, Records, Search
from examples.console.settings import SettingsError
from tests.console.browser import PATIENCE, create, delete
from tests.console.running import (
    ALICE,
    BOB,
    RunningConsole,
    pid_of,
    signed_in,
)

ALICE_A, BOB_B = Person("a-1", "Alice Admin"), Person("b-2", "Bob Viewer")
NOW = datetime.now(UTC)


def event(
    what: str, *, by: Person = ALICE_A, days: float = 0, refused: str = "", detail: str = ""
) -> Event:
    return Event(NOW - timedelta(days=days), by, what, refused, "web", detail)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    records = Records(tmp_path / "records.sqlite3", kept_days=30)
    for one in (
        event("Setup saved.", days=40),
        event("Tried to start it.", by=BOB_B, days=2, refused="Only an admin may."),
        replace(event("The machine is running.", days=1), address="192.0.2.7"),
        event("The monitor ended: exit status 0.", by=Person("", ""), detail="Console: panic"),
    ):
        records.add_event(one)
    records.settle()
    yield records
    records.close()


@pytest.mark.parametrize(
    ("search", "count"),
    [
        (Search(), 4),
        (Search(machine="web"), 4),
        (Search(machine="other"), 0),
        (Search(person="alice"), 2),
        (Search(person="b-2"), 1),
        (Search(person="192.0.2.7"), 1),
        (Search(person="192.0.2"), 0),
        (Search(text="PANIC"), 1),
        (Search(text="only an admin"), 1),
        (Search(text="%"), 0),
        (Search(text="pan\0ic"), 1),
        (Search(begin=NOW - timedelta(days=3), end=NOW - timedelta(hours=1)), 2),
        (Search(only_refused=True), 1),
        (Search(before=3), 2),
        (Search(machine="web", person="bob", text="start"), 1),
    ],
)
def test_events_are_found(records: Records, search: Search, count: int) -> None:
    assert len(records.events(search, 10)) == count


def test_the_newest_come_first_and_no_more_than_asked_for(records: Records) -> None:
    assert [one.what for one in records.events(Search(), 2)] == [
        "The monitor ended: exit status 0.",
        "The machine is running.",
    ]


def test_events_expire(records: Records) -> None:
    records.tidy()
    records.settle()
    assert len(records.events(Search(), 10)) == 3


def test_exports_have_every_member_and_no_formula(records: Records) -> None:
    records.add_event(event("=HYPERLINK()"))
    records.settle()
    found = records.events(Search(), 10)
    rows = list(csv.DictReader(io.StringIO(as_csv(found)), COLUMNS))
    assert rows[0]["what"] == "'=HYPERLINK()"
    assert rows[1]["detail"] == "Console: panic"
    assert rows[3]["refused"] == "Only an admin may."
    assert rows[3]["person"] == "Bob Viewer"


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "records.sqlite3").write_text("this is no database, " * 100)
    with pytest.raises(SettingsError, match="cannot be used"):
        Records(tmp_path / "records.sqlite3")


def test_a_record_that_cannot_be_written_stops_nothing(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    records.add_event(event("No text: \ud800"))
    records._database.write(lambda one: one.execute("DROP TABLE events").rowcount)
    records.add_event(event("Lost."))
    records.keep_access("web", "of Alice")
    records.settle()
    assert records.accesses() == {"web": "of Alice"}
    assert "a record could not be written" in caplog.text


def test_events_are_searched_in_the_page(host: RunningConsole) -> None:
    with signed_in(host, ALICE) as alice:
        alice.open_until("demo Running", "/")
        alice.open_until("demo : The machine is created.", "/events?machine=demo&person=console")
        alice.open("/events?text=nothing-like-it", sees="Nothing was found.")
        for odd in ("begin=yesterday", "end=10000-12-31", f"before={1 << 63}"):
            alice.open(f"/events?{odd}")
            assert alice.status == 422
        lines = alice.ask("/events/export", machine="demo").text.splitlines()
        assert {line["machine"] for line in csv.DictReader(lines)} == {"demo"}


def test_an_export_has_all_events(host: RunningConsole) -> None:
    records = host.parts.monitors.records
    for number in range(EXPORTED_EVENTS + 5):
        records.add_event(Event(NOW, ALICE_A, f"counted {number}", machine="many"))
    records.settle()
    with signed_in(host, ALICE) as alice:
        _, first, *lines = alice.ask("/events/export", machine="many").text.splitlines()
        assert len(lines) == EXPORTED_EVENTS + 4
        assert f"counted {EXPORTED_EVENTS + 4}" in first
        assert "counted 0" in lines[-1]


def test_why_a_monitor_ended_is_written_down(host: RunningConsole) -> None:
    with signed_in(host, ALICE) as alice:
        create(alice, "victim")
        alice.open_until("This guest is simulated", "/machines/victim/console")
        os.kill(pid_of(host, "victim"), signal.SIGKILL)
        alice.open_until("victim Ended", "/machines/victim")
        alice.open_until("The monitor ended", "/machines/victim")
        assert "killed by SIGKILL (signal 9)" in alice.text
        assert "Last action: Alice Admin: The machine is created." in alice.text
        assert "Console: [ WARN ] This guest is simulated" in alice.text
        delete(alice, "victim")


def test_prometheus_reads_figures_with_its_token(host: RunningConsole) -> None:
    with signed_in(host, ALICE) as alice:
        app = create_app(host.parts.oidc, host.parts.monitors, metrics_token="of-prometheus")
        right, figures = {"authorization": "Bearer of-prometheus"}, ""
        deadline = time.monotonic() + PATIENCE
        while 'machine="demo",state="Running"} 1.0' not in figures:
            assert time.monotonic() < deadline, figures
            alice.open_until("demo Running", "/")  # a busy computer may miss a look at the machine
            figures = TestClient(app).get("/metrics", headers=right).text
    assert "console_host_memory_used_bytes" in figures
    for wrong in ({}, {"authorization": "Bearer other"}, {"authorization": "of-prometheus"}):
        assert TestClient(app).get("/metrics", headers=wrong).status_code == 401
    nothing = Monitors({})
    without = create_app(host.parts.oidc, nothing)
    assert TestClient(without).get("/metrics", headers=right).status_code == 404
    nothing.records.close()


def test_a_slow_reader_delays_no_writer_and_no_other_reader(records: Records) -> None:
    database = records._database
    begun, over = threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return over.wait(PATIENCE)

    def slow() -> None:
        reader = database.reader()
        reader.create_function("hold", 0, hold)
        reader.execute("SELECT hold() FROM events LIMIT 1").fetchall()

    thread = threading.Thread(target=slow)
    thread.start()
    begun.wait(PATIENCE)
    records.add_event(event("Meanwhile.")).result(PATIENCE)
    assert records.events(Search(text="Meanwhile"), 1)[0].what == "Meanwhile."
    over.set()
    thread.join()


async def test_who_goes_away_before_an_event_is_stored_delays_no_other_event(
    records: Records,
) -> None:
    begun, over = threading.Event(), threading.Event()

    def hold(_: object) -> int:
        begun.set()
        return over.wait(PATIENCE)

    held = records._database.write(hold)
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    leaving = asyncio.create_task(records.begin_event(event("Wants to leave.")))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    over.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wrap_future(held)
        await records.begin_event(event("Wants to stay."))
    found = [one.what for one in records.events(Search(text="Wants to"), 2)]
    assert found == ["Wants to stay.", "Wants to leave."]


def test_a_text_is_found_by_an_index(records: Records) -> None:
    records.add_event(event('Ran "a OR b" NEAR *', detail="größer"))
    records.settle()
    for text, count in (('"a or b" near *', 1), ("GRÖSS", 0), ("größ", 1), ("b", 1), ('"', 1)):
        assert len(records.events(Search(text=text), 10)) == count, text


def hundreds_of_steps(records: Records, search: Search) -> int:
    """What SQLite does for a search, in hundreds of its instructions."""
    steps: list[None] = []
    reader = records._database.reader()
    reader.set_progress_handler(lambda: steps.append(None), 100)
    records.events(search, 5)
    reader.set_progress_handler(None, 0)
    return len(steps)


@pytest.mark.parametrize(
    "search",
    [
        Search(machine_id="web"),
        Search(machine_id="web", calls=False),
        Search(machine="web"),
        Search(text="an act"),
    ],
)
def test_a_guest_that_calls_again_and_again_slows_no_search_down(
    records: Records, search: Search
) -> None:
    records.add_event(replace(event("An act."), machine_id="web"))
    call = replace(event("Called calendar.internal."), machine_id="web", is_call=True)
    for _ in range(3000):
        records.add_event(call)
    records.settle()
    assert hundreds_of_steps(records, search) < 20
    assert hundreds_of_steps(records, Search(person="nobody")) > 200  # it looks at every event


async def test_the_text_of_an_action_is_found_as_it_ended(records: Records) -> None:
    number = await records.begin_event(event("Wants to stop."))
    records.finish_event(number, "Stopped.", "", "web", "grace: 5").result(PATIENCE)
    assert records.events(Search(text="Wants to"), 10) == []
    assert [one.what for one in records.events(Search(text="grace: 5"), 10)] == ["Stopped."]


def test_repeated_refusals_are_counted_whatever_else_is_tried(records: Records) -> None:
    for _ in range(3):
        records.add_event(event("Tried to stop it.", by=BOB_B, refused="No."))
    records.add_event(event("Tried to stop it.", by=ALICE_A, refused="No."))
    records.add_event(event("Tried to start it.", by=BOB_B, refused="No."))
    records.add_event(event("Tried to stop it.", by=BOB_B, refused="No."))
    records.settle()
    found = records.events(Search(text="Tried to st", begin=NOW - timedelta(days=1)), 4)
    assert [(one.by.name, one.times) for one in reversed(found)] == [
        ("Alice Admin", 1), ("Bob Viewer", 1), ("Bob Viewer", 4),
    ]  # fmt: skip


def test_a_refusal_from_another_place_is_no_repetition(records: Records) -> None:
    refused = event("Tried to stop it.", by=BOB_B, refused="No.")
    for address in ("192.0.2.7", "192.0.2.8", "192.0.2.7"):
        records.add_event(replace(refused, address=address))
    records.settle()
    found = records.events(Search(text="Tried to stop"), 4)
    assert [(one.address, one.times) for one in found] == [("192.0.2.7", 2), ("192.0.2.8", 1)]


async def test_an_action_of_a_process_that_was_killed_is_given_up_after_a_day(
    records: Records,
) -> None:
    old = await records.begin_event(event("Wants to stop it.", days=1.1))
    new = await records.begin_event(event("Wants to stop it."))
    records.tidy()
    records.settle()
    found = {one.id: one for one in records.events(Search(text="Wants to stop"), 2)}
    assert (found[old].pending, found[old].refused) == (False, "The console ended meanwhile.")
    assert (found[new].pending, found[new].refused) == (True, "")


def test_events_say_from_where(host: RunningConsole) -> None:
    """The server knows it from the proxy on this host; others cannot say it."""
    with signed_in(host, BOB) as bob:
        bob.open_until("demo Running", "/")  # the demo makes its machines after its start
        bob.headers_sent["X-Forwarded-For"] = "192.0.2.66, 198.51.100.7"
        bob.post("/machines/demo/pause", {})
        bob.open(
            "/events?person=198.51.100.7", sees="demo : Tried to call POST /machines/demo/pause."
        )
        assert "Bob Viewer, 198.51.100.7" in bob.text
        bob.open("/events/export?person=198.51.100.7")
        assert [line["address"] for line in csv.DictReader(bob.body.splitlines())] == [
            "198.51.100.7"
        ]
        bob.open("/events?person=127.0.0.1&text=signed", sees="Signed in. just now")
        bob.open("/events?person=192.0.2.66", sees="Nothing was found.")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/machines/demo/guest/run", "demo : Tried to call POST /machines/demo/guest/run."),
        ("/machines/demo/console/input", "demo : Tried to call POST"),
        ("/images/upload", "Tried to call POST /images/upload."),
        ("/new", "Tried to call POST /new."),
        ("/bulk", "Tried to call POST /bulk."),
        ("/account/sign-out-everywhere", "Tried to call POST /account/sign-out-everywhere."),
    ],
)
def test_what_is_refused_by_any_route_is_in_the_trail(
    host: RunningConsole, path: str, what: str
) -> None:
    with signed_in(host, BOB) as bob:
        bob.open_until("demo Running", "/")
        bob.post(path, {})
        assert bob.status == 403
        bob.open(f"/events?text={path}&refused=true")
        assert what in bob.text
        script = {"accept": "application/json"}
        httpx.post(host.url + path, headers=script, cookies=bob.cookies)
        bob.open(f"/events?text={path}&refused=true")
        assert "(2 times)" in bob.text


def test_a_sign_in_has_the_name_that_the_user_had_last(records: Records) -> None:
    for name in ("", "Ann Old", "Ann New", ""):
        records.add_event(Event(datetime.now(UTC), Person("ann", name), "Signed in."))
    records.settle()
    found = records.events(Search(person="ann"), 9)
    assert [one.by.name for one in found] == ["Ann New", "Ann New", "Ann Old", ""]
    assert len(records.events(Search(person="ann new"), 9)) == 2


def test_sign_ins_and_their_ends_are_in_the_trail(host: RunningConsole) -> None:
    with signed_in(host, ALICE) as alice:
        alice.open("/events?text=Signed", sees="Signed in.")
        alice.post("/machines/demo/pause", {})
        alice.open("/events")
        alice.click("Sign out here only")
    with signed_in(host, ALICE) as alice:
        told = "Signed out. just now Alice Admin, 127.0.0.1"
        alice.open_until(told, "/events?text=Signed+out")
