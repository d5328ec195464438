"""A person gives a machine access to an API: its calls, its end, and who may do what."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TypeAlias, cast

import httpx
import pytest
from fastapi import FastAPI

from examples.console import access
from examples.console.access import apis_in
from examples.console.app import create_app
from examples.console.demo import _host, parts
from examples.console.hosted import HostedMonitor
from examples.console.records import Event, Search
from examples.console.settings import ConsoleSettings, SettingsError
from fastapi_oidc import MemoryStore
from tests.console.browser import PATIENCE, Browser, delete, do
from tests.console.running import (
    ALICE,
    BOB,
    RunningConsole,
    hosting_console,
    serving,
    signed_in,
)

CAROL = "CO Carol Operator"
GUEST = "/machines/demo/guest"
Trail: TypeAlias = Callable[[], list[Event]]


@pytest.fixture(scope="module")
def one_house() -> Iterator[RunningConsole]:
    """A console whose guests have the agent, and which looks often for ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "LOOK_SECONDS", 0.05)
        with hosting_console(simulated_agent=True) as console:
            yield console


@pytest.fixture
def house(one_house: RunningConsole) -> Iterator[RunningConsole]:
    """A console whose machine has no access."""
    yield one_house
    with at_guest(one_house, ALICE) as alice:
        if alice.has_button("Withdraw"):
            alice.click("Withdraw")


@contextmanager
def at_guest(house: RunningConsole, name: str) -> Iterator[Browser]:
    with signed_in(house, name) as browser:
        browser.open_until("demo Running", "/")
        browser.open(GUEST)
        yield browser


@pytest.fixture
def carol(house: RunningConsole) -> Iterator[Browser]:
    with at_guest(house, CAROL) as browser:
        yield browser


def socket_of(house: RunningConsole, name: str = "demo") -> Path:
    machine = house.parts.monitors.get(name)
    assert isinstance(machine, HostedMonitor)
    return machine.machine.vsock_path(8080)


def call(path: Path, method: str = "GET", url: str = "/events", **options: str) -> httpx.Response:
    """What a program in the guest gets."""
    transport = httpx.HTTPTransport(uds=str(path), retries=5)
    with httpx.Client(
        transport=transport, base_url="http://calendar.internal", timeout=PATIENCE
    ) as client:
        return client.request(method, url, json=options.get("json"))


def until(is_so: Callable[[], bool]) -> None:
    """Waits for it."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def trail(house: RunningConsole) -> Trail:
    """The machine's events of this test, the oldest first."""
    records = house.parts.monitors.records

    def events() -> list[Event]:
        records.settle()
        return records.events(Search(machine="demo"), 100)[::-1]

    before = len(events())
    return lambda: events()[before:]


def accesses_of(house: RunningConsole) -> access.Accesses:
    app = house.server.config.app
    assert isinstance(app, FastAPI)
    return cast(access.Accesses, app.state.accesses)


def has_access(house: RunningConsole, name: str) -> bool:
    """Whether the records say that the machine has any."""
    monitor = house.parts.monitors.get(name)
    house.parts.monitors.records.settle()
    return monitor is not None and monitor.key in house.parts.monitors.records.accesses()


def test_a_guest_calls_an_api_as_its_person_and_has_no_token(trail: Trail, carol: Browser) -> None:
    carol.click("Give access", sees="Carol Operator has given it calendar.internal until")
    assert "No call yet." in carol.text
    carol.click("curl http://calendar.internal/events", sees="HTTP/1.1 200")
    carol.open_until("1 call; 0 B sent, 2 B received.", GUEST)
    carol.click("Search the guest for tokens", sees="Output No token was found.")
    planted = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYXJvbCJ9."
    carol.click("Run", {"command": f'echo {planted} > "$CURL_HOME/token"'})
    carol.click("Search the guest for tokens")
    assert "/token Files" in carol.text, "the search finds what is there"
    [called] = [event for event in trail() if event.is_call]
    assert called.what.startswith("Called GET calendar.internal/events: 200, 0 B sent, 2 B rec")
    assert (called.by.name, called.by.sub, called.machine) == ("Carol Operator", "carol", "demo")
    said = [event.what for event in trail()]
    assert "Gave it access to calendar.internal for 2 hours." in said
    carol.open("/machines/demo")
    assert "Called GET" not in carol.text, "what people did is not lost among calls"


def test_a_sign_out_ends_it_and_the_trail_says_so(
    house: RunningConsole, trail: Trail, carol: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    carol.click("Give access")
    path = socket_of(house)
    assert call(path, url="/events?secret=1").status_code == 200
    carol.post("/account/sign-out-everywhere", {"csrf_token": carol.field("csrf_token")})
    assert [call(path).status_code for _ in range(3)] == [401, 401, 401]
    told = [("", 1), ("Its person has signed out.", 3)]  # a call is recorded after its answer
    until(lambda: [(one.refused, one.times) for one in trail() if one.is_call] == told)
    assert "secret" not in str(trail())
    with at_guest(house, CAROL) as again:
        assert "that Carol Operator gave has ended. Its person has signed out." in again.text
        monkeypatch.setattr(access, "TOLD_SECONDS", 0)
        again.click("Give access", {"time": "1 hour"})
        assert call(path).status_code == 200
        again.click("Withdraw")
        until(lambda: not has_access(house, "demo"))
        assert not path.exists()
        again.open(GUEST)
        assert "has ended" not in again.text


def test_the_page_of_an_earlier_machine_of_the_name_gets_no_form_for_this_one(
    carol: Browser,
) -> None:
    [polled] = re.findall('data-refresh="([^"]+/guest/access[^"]*)"', carol.body)
    key = carol.field("machine_id")
    carol.open(polled)
    assert carol.field("machine_id") == key
    carol.open(polled.replace(key, "0123"))
    carol.require(410, "The page is of an earlier machine of this name.")


def test_who_may_give_and_withdraw(house: RunningConsole, trail: Trail, carol: Browser) -> None:
    forms = f"{GUEST}/access", f"{GUEST}/access/withdraw"
    with at_guest(house, BOB) as bob:
        assert "Nobody has given it access." in bob.text
        bob.post(forms[0], {"csrf_token": bob.field("csrf_token"), "time": "1 hour"})
        assert bob.status == 403
    with at_guest(house, ALICE) as alice:
        for wrong, why in (
            ({"time": "1 year"}, "Choose what to give"),
            ({"route": "mail.internal"}, "Choose what to give"),
            ({"machine_id": "0123"}, "The page is of an earlier machine of this name."),
        ):
            alice.open(GUEST)
            alice.click("Give access", wrong)
            alice.require(422, why)
        alice.click("Give access")
        given = alice.form_of("withdraw")
        with at_guest(house, BOB) as bob:
            assert "Alice Admin has given it calendar.internal" in bob.text
            assert not bob.has_button("Withdraw")
        carol.click("Give access", sees="Another person has given this machine access.")
        assert not carol.has_button("Withdraw")
        carol.post(forms[1], {**given, "csrf_token": carol.field("csrf_token")})
        assert carol.status == 403
        assert call(socket_of(house)).status_code == 200
        alice.open(GUEST)
        alice.click("Withdraw", sees="that Alice Admin gave has ended. It was withdrawn")
        carol.open(GUEST)
        carol.click("Give access")
        alice.open(GUEST)
        alice.click("Withdraw")
        assert call(socket_of(house)).status_code == 401
        alice.post(forms[1], {**given, "csrf_token": alice.field("csrf_token")})
        assert "There is no such access any more." in alice.text
    last = [event for event in trail() if event.what.startswith("Withdrew")][-1]
    assert (last.what, last.by.name) == (
        "Withdrew the access that Carol Operator gave it.",
        "Alice Admin",
    )


def test_a_call_that_waits_is_approved_from_the_page(
    house: RunningConsole, trail: Trail, carol: Browser
) -> None:
    carol.click("Give access")
    answers = list[httpx.Response]()
    path = socket_of(house)
    guest = Thread(target=lambda: answers.append(call(path, "POST", json="18:00 Dinner")))
    guest.start()
    carol.open_until("POST calendar.internal/events waits for you", GUEST)
    with at_guest(house, ALICE) as alice:
        assert "POST calendar.internal/events waits" in alice.text
        assert "look at it" not in alice.page.links
    carol.open(carol.page.links["look at it"], sees="18:00 Dinner")
    carol.click("Approve")
    guest.join()
    assert answers[0].json() == ["18:00 Dinner"]
    said = [event.what for event in trail()]
    assert "POST calendar.internal/events waits." in said
    [decided] = [one for one in trail() if one.what == "POST calendar.internal/events approved."]
    assert (decided.by.sub, decided.address) == ("carol", "127.0.0.1")
    until(lambda: {one.address for one in trail() if one.is_call} == {""})  # a guest has none


def test_each_machine_has_its_own_and_a_copy_has_none(house: RunningConsole) -> None:
    with at_guest(house, ALICE) as alice:
        alice.click("Give access")
        do(alice, "demo", "snapshots", "Clone", {"clone.name": "copy", "clone.taps": "eth0=tap1"})
        alice.open_until("copy Running", "/")
        assert not socket_of(house, "copy").exists()
        do(alice, "demo", "snapshots", "Create snapshot", {})
        alice.open(alice.page.links["Restore into a new machine"])
        later = {"new.name": "later", "new.taps": "eth0=tap2"}
        alice.click("Restore into a new machine", later)
        alice.open_until("later Running", "/")
        assert not socket_of(house, "later").exists()
        for name in ("copy", "later"):
            alice.open(f"/machines/{name}/guest")
            assert alice.has_button("Give access")
        delete(alice, "later")
        do(alice, "demo", "", "Stop", {})
        alice.click("Start")
        until(lambda: socket_of(house).exists())
        assert call(socket_of(house)).json() == ["9:00 Stand-up", "12:30 Lunch with Bob"]
        alice.open("/machines/copy/guest")
        alice.click("Give access")
        assert has_access(house, "copy")
        accesses = accesses_of(house)
        [given] = [each for each in accesses.given.values() if "copy" in each.access.machine]
        delete(alice, "copy")
        until(lambda: len(house.parts.monitors.records.accesses()) == 1)
        assert house.server.do(accesses.broker.access_of(given.access.machine)) is None


def test_the_next_console_serves_it_again(short_path: Path) -> None:
    store = MemoryStore()
    settings = ConsoleSettings(port=0, provider_port=0, folder=short_path, simulated_agent=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        with parts(settings) as console:
            app = create_app(console.oidc, console.monitors, store, apis=console.apis)
            with serving(app, listener) as server:
                house = RunningConsole(f"http://127.0.0.1:{settings.port}", console, server)
                with at_guest(house, CAROL) as carol:
                    carol.click("Give access")
                path = socket_of(house)
                assert call(path).status_code == 200
            assert not path.exists()
            app = create_app(console.oidc, _host(settings, short_path), store, apis=console.apis)
            with socket.create_server(("127.0.0.1", 0)) as other, serving(app, other):
                until(path.exists)
                assert call(path).status_code == 200


GUIDE = Path(__file__).parents[2] / "docs" / "broker.md"
ROUTES = f"""{GUIDE.read_text().split("```toml")[1].split("```")[0]}
["machines.internal"]
url = "https://machines.example.com"
own_token = true
allow = ["GET /**"]
"""


def test_routes_of_a_file(tmp_path: Path) -> None:
    (path := tmp_path / "routes.toml").write_text(ROUTES)
    routes, downstream = apis_in(path)
    assert list(routes) == ["calendar.internal", "machines.internal"]
    assert [(api.grant, api.resource) for api in downstream] == [
        ("token_exchange", "https://calendar.example.com")
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("allow", "alow"), "CONSOLE_ROUTES: calendar.internal.allow: Field required"),
        (("https", "http"), "url must begin with https"),
        (('"]', "'"), "CONSOLE_ROUTES: "),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    (path := tmp_path / "routes.toml").write_text(ROUTES.replace(*change))
    with pytest.raises(SettingsError, match=why) as caught:
        apis_in(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SettingsError, match="No such file"):
        apis_in(tmp_path / "none")
