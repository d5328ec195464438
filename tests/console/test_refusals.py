"""Every failure a person can cause is a sentence on the page, and changes nothing."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from examples.console.app import create_app
from examples.console.entrance import LONGEST_BODY
from examples.console.events import NOBODY, address, person, work_for
from examples.console.middleware import SecurityHeaders
from examples.console.monitors import Monitors
from examples.console.pages import STATIC_PATH
from examples.console.records import Person
from generated_vmm import VmmClient
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.running import ALICE, RunningConsole, running_console, signed_in
from tests.console.test_rights import NAVIGATION, addressed, own_routes


@pytest.mark.parametrize(
    "tab", ["overview", "devices", "memory", "metadata", "snapshots", "restart"]
)
def test_a_viewer_sees_no_button_that_refuses(bob: Browser, tab: str) -> None:
    bob.open(f"/machines/demo/{tab}", sees="Bob Viewer viewer")
    assert "look at everything but secrets, and change nothing" in bob.text
    assert not [form.action for form in bob.page.forms if "/machines/" in form.action]


def test_a_machine_without_a_kernel_is_not_started_and_the_overview_says_who_tried(
    alice: Browser,
) -> None:
    alice.open("/")
    assert not alice.has_button("Start")
    assert 'aria-label="Choose demo"' in alice.body
    alice.open("/machines/demo")
    assert not alice.has_button("Start")
    page = {"csrf_token": alice.field("csrf_token"), "page": alice.field("page")}
    alice.post("/machines/demo/start", page)
    alice.require(409, "The machine has no kernel yet. Save the setup.")
    alice.click("Save setup")
    tried = r"Tried to start a machine\. just now Alice Admin The machine has no kernel yet"
    assert re.search(r"Events Setup saved\. just now Alice Admin", alice.text)
    assert re.search(tried, alice.text)


@pytest.mark.parametrize("field", ["boot_source.kernel_image_path", "boot_source.initrd_path"])
def test_a_file_that_is_none_of_the_consoles_is_told_at_the_start(
    alice: Browser, field: str
) -> None:
    alice.click("Save setup", {field: "/nowhere"})
    alice.click("Start")
    alice.require(422, "/nowhere")


def test_a_guest_that_is_shut_down_takes_its_monitor_along(alice: Browser) -> None:
    for button in ("Save setup", "Start", "Ctrl+Alt+Del"):
        alice.click(button)
    assert "The guest was sent Ctrl+Alt+Del." in alice.text
    alice.open_until("demo Ended", "/machines/demo")


def test_text_is_shown_as_text(alice: Browser) -> None:
    alice.click("Save setup", {"boot_source.boot_args": '"><script>alert(1)</script>'})
    assert alice.field("boot_source.boot_args") == '"><script>alert(1)</script>'


def test_a_monitor_of_another_program_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    path = str(tmp_path / "vm.socket")
    with ExitStack() as stack:
        simulated = stack.enter_context(SimulatedMonitor(path, check_files=False))
        stack.enter_context(VmmClient(path)).boot("/kernel", "/disk")
        console = stack.enter_context(running_console({"demo": path}))
        alice = stack.enter_context(signed_in(console))
        for button in ("Pause", "Resume"):
            alice.click(button)
            assert alice.status == 200
        simulated.stop()
        alice.click("Pause")
        alice.require(502, "No monitor responds.")
        assert not alice.has_button("Resume")


def test_a_session_that_ended_before_the_click_leads_back(
    alice: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo/devices")
    alice.forget_cookies()
    alice.click("Add network interface", {"network.host_dev_name": "tap7"})
    alice.require(401, "Your session has ended Nothing was changed.")
    assert not console.machine().definition.can_boot
    alice.open(alice.page.links["Sign in"])
    alice.click("AA Alice Admin")
    assert alice.path == "/machines/demo/devices"


def test_a_form_of_another_session_is_refused(alice: Browser, console: RunningConsole) -> None:
    alice.click("Save setup", {"csrf_token": "of somebody else"})
    alice.require(403, "The request lacks the token of its page. Go back, reload the page")
    assert not console.machine().definition.can_boot


def test_declining_to_sign_in_is_a_sentence(console: RunningConsole) -> None:
    with Browser(console.url) as browser:
        browser.home()
        browser.click("Do not sign in")
        browser.require(400, "The sign-in service did not sign you in.")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/machines/nobody", "There is no such machine."),
        ("/machines/demo/explode", "There is no such page."),
        ("/nowhere", "There is no such page."),
    ],
)
def test_an_unknown_address_is_a_sentence(alice: Browser, path: str, sentence: str) -> None:
    alice.open(path)
    alice.require(404, sentence)
    assert "All machines" in alice.page.links


def test_the_address_of_a_failed_change_leads_to_the_machine(alice: Browser) -> None:
    alice.open("/machines/demo/grow")
    assert alice.path == "/machines/demo/devices"


# What a browser may send: nothing before the sign-in, then nothing long, and no files


PATHS = ("/account/sign-out-everywhere", "/images/upload", "/machines/demo/stop", "/nowhere")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_of_a_stranger_is_read(host: RunningConsole, path: str) -> None:
    connection = HTTPConnection(urlsplit(host.url).netloc, timeout=60)
    with closing(connection):
        connection.putrequest("POST", path)
        connection.putheader("Content-Type", "multipart/form-data; boundary=a")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        assert connection.getresponse().status == 401


@pytest.mark.parametrize("root_path", ["/api", "/machines"])
def test_a_prefix_that_a_proxy_removes_opens_and_closes_nothing(
    host: RunningConsole, root_path: str
) -> None:
    nothing = Monitors({})
    app = create_app(host.parts.oidc, nothing)
    client = TestClient(app, root_path=root_path, follow_redirects=False)
    assert client.get(f"{root_path}/host").status_code == 401
    assert client.get(f"{root_path}{STATIC_PATH}/console.css").status_code == 200
    nothing.records.close()


async def test_a_request_begins_with_nothing_of_another_one_of_its_connection() -> None:
    """A server may begin it in the task of that one, whose long body it has just read."""
    begun: list[object] = []

    async def app(*_: object) -> None:
        begun.append((person(), address()))
        work_for(Person("alice", "Alice"))

    outermost = SecurityHeaders(app, "https://op.test")
    for host in ("192.0.2.6", "192.0.2.7"):
        await outermost({"type": "http", "client": (host, 1)}, *cast("Any", (None, None)))
    assert begun == [(NOBODY, "192.0.2.6"), (NOBODY, "192.0.2.7")]


def test_files_and_long_forms_are_refused_on_the_record(host: RunningConsole) -> None:
    with signed_in(host, ALICE) as alice:
        for path in (*PATHS[::2], *PATHS[3:]):
            alice.post(path, {}, file=("a.txt", b"a" * 100))
            alice.require(415, "The console takes no files.")
            alice.post(path, {"a": "b" * LONGEST_BODY})
            alice.require(413, "This form is too long.")
            alice.open(f"/events?text={path}", sees="This form is too long.")
            assert "The console takes no files." in alice.text


def test_a_form_that_does_not_say_its_length_is_read_to_the_limit(host: RunningConsole) -> None:
    chunks = (b"a" * 65_536 for _ in range(8))
    kind = {"content-type": "application/x-www-form-urlencoded"}
    with signed_in(host, ALICE) as alice:
        url, cookies = f"{host.url}/machines/demo/stop", alice.cookies
        answer = httpx.post(url, content=chunks, headers=kind, cookies=cookies, timeout=60)
        assert answer.status_code in (403, 413)
        assert answer.headers["content-security-policy"]


# No response of the console is kept by a cache, framed, or runs what is not the console's


@pytest.fixture
def admin(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host) as browser:
        browser.open_until(" up ", "/")
        yield browser


def hold(response: httpx.Response, cached: str = "no-store private") -> None:
    headers, url = response.headers, response.request.url
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; "), url
    assert "frame-ancestors 'none'" in policy, url
    assert "unsafe" not in policy, url
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert headers["cache-control"] in cached.split(), url
    assert headers["referrer-policy"] in ("same-origin", "no-referrer"), url


def test_what_a_user_gets_is_that_users_alone_and_a_form_of_another_site_is_refused(
    host: RunningConsole, admin: Browser
) -> None:
    headers = {"origin": host.url, **NAVIGATION}
    with httpx.Client(
        base_url=host.url, cookies=admin.cookies, headers=headers, timeout=60
    ) as client:
        for method, path in own_routes(host, host.parts.apis):
            sent = {"csrf_token": "no"} if method == "POST" else None
            asked_for = addressed(path, "demo")
            response = client.request(method, asked_for, params={"seconds": "0"}, data=sent)
            hold(response)
            assert response.headers["vary"] == "Cookie", path
            assert "set-cookie" not in response.headers, path
            expected = {"/images/upload": 422, "/machines/{machine}/guest/file": 409}
            assert method == "GET" or response.status_code == expected.get(path, 403), path
            # 422 for a part of a page, which needs the id of the machine that the page is of.
            assert method == "POST" or response.status_code in (200, 303, 404, 409, 422), path


def test_what_strangers_get(host: RunningConsole) -> None:
    with httpx.Client(base_url=host.url, headers=NAVIGATION, timeout=60) as stranger:
        for method, path in own_routes(host, host.parts.apis):
            hold(stranger.request(method, addressed(path, "demo")))
        hold(stranger.get("/signed-out"))
        file = stranger.get(f"{STATIC_PATH}/console.css").headers
        assert file["cache-control"] == "no-cache"
    nothing = Monitors({})
    app = create_app(host.parts.oidc, nothing, metrics_token="of-prometheus")
    refused = TestClient(app).get("/metrics")
    hold(refused)  # type: ignore[arg-type]  # of httpx2, with the same members
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    nothing.records.close()
