"""A console that starts machines, in Chromium: all its pages, and what is done on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from tests.chromium import close_context, violations
from tests.console.in_chromium.pages import Scheme, press, unfold, unfold_all
from tests.console.running import RunningConsole, hosting_console

PAGES = (
    *("/", "/images", "/events", "/new", "/new/snapshot", "/?find=ended"),
    *(f"/machines/{name}" for name in ("demo", "ended", "paused", "fresh")),
    *(f"/machines/{name}/snapshots" for name in ("demo", "ended", "paused")),
    *("/machines/ended/devices", "/machines/ended/console", "/machines/paused/restart"),
)
Visit: TypeAlias = Callable[..., Page]


@pytest.fixture(scope="module")
def host() -> Iterator[RunningConsole]:
    with hosting_console() as console:
        yield console


@contextmanager
def visiting(chromium: Browser, host: RunningConsole) -> Iterator[Visit]:
    """Signs a person in, in a profile of their own, who agrees to every question."""
    with ExitStack() as stack:

        def sign_in(name: str = "alice", *, width: int = 1280) -> Page:
            size = ViewportSize(width=width, height=900)
            context = chromium.new_context(viewport=size, base_url=host.url)
            stack.callback(close_context, context)
            page = context.new_page()
            page.goto("/")
            page.click(f"button[value={name}]")
            expect(in_list(page, "demo")).to_contain_text("Running")
            page.on("dialog", lambda dialog: dialog.accept())
            return page

        yield sign_in


@pytest.fixture
def visit(chromium: Browser, host: RunningConsole) -> Iterator[Visit]:
    with visiting(chromium, host) as sign_in:
        yield sign_in


def in_list(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=name)


@pytest.fixture(scope="module")
def furnished(chromium: Browser, host: RunningConsole) -> None:
    """Alice has made a machine in each state, and a snapshot."""
    with visiting(chromium, host) as visit:
        page = visit()
        for name, button in (("ended", "Stop"), ("paused", "Pause")):
            create(page, name)
            press(page, button)
        page.goto("/machines/paused/snapshots")
        page.fill("#named_snapshot-name", "moment")
        press(page, "Create snapshot")
        expect(page.get_by_role("status")).to_have_text("Snapshot created.")


def create(page: Page, name: str) -> None:
    page.goto("/new")
    page.get_by_label("Name", exact=True).fill(name)
    press(page, "Create machine")
    expect(page.locator("h1")).to_contain_text(f"{name} Running")


@pytest.mark.timeout(600)  # axe reads every page, which a busy computer takes minutes for
@pytest.mark.parametrize(
    ("person", "paths", "looks"),
    [
        ("alice", PAGES, [(1280, "light"), (390, "dark")]),
        ("bob", [path for path in PAGES if not path.startswith("/new")], [(390, "dark")]),
    ],
    ids=["alice", "bob"],
)
def test_every_page_is_accessible_and_fits_in_every_state(
    visit: Visit,
    furnished: None,
    person: str,
    paths: Sequence[str],
    looks: Sequence[tuple[int, Scheme]],
) -> None:
    page = visit(person)
    for path in paths:
        page.goto(path)
        unfold_all(page)
        for width, scheme in looks:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_what_cannot_be_deleted_is_told_accessibly(visit: Visit, furnished: None) -> None:
    page, other = visit(), visit()
    page.goto("/images")
    other.goto("/images")
    for one in (page, other):
        press(one, "Delete moment")
    expect(page.get_by_role("status")).to_have_text("Deleted.")
    expect(other.get_by_role("alert")).to_have_text("This snapshot does not exist any more.")
    assert violations(other) == []


def test_an_ended_machine_is_edited_completely_and_started(
    visit: Visit, host: RunningConsole
) -> None:
    disk, page = host.disk("data").name, visit()
    create(page, "changed")
    press(page, "Stop")
    page.fill("#machine_config-mem_size_mib", "256")
    page.fill("#boot_source-boot_args", "console=ttyS0 quiet")
    press(page, "Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
    page.get_by_role("link", name="Devices", exact=True).click()
    unfold(page, "Add a drive")
    page.fill("#drive-drive_id", "data")
    page.select_option("#drive-path_on_host", label=disk)
    press(page, "Add drive")
    expect(page.get_by_role("status")).to_have_text("The drive is added.")
    press(page, "Remove rootfs")
    expect(page.get_by_role("status")).to_have_text("The drive is removed.")
    unfold(page, "Add a network interface")
    page.fill("#network-iface_id", "eth0")
    page.fill("#network-host_dev_name", "tap3")
    press(page, "Add network interface")
    expect(page.get_by_role("status")).to_have_text("The network interface is added.")
    page.locator("#fold-vsock summary").click()
    press(page, "Save vsock")
    expect(page.get_by_role("status")).to_have_text("The vsock is saved.")
    press(page, "Start")
    expect(page.locator("h1")).to_contain_text("changed Running")
    page.goto("/machines/changed/configuration")
    for part in ('"mem_size_mib": 256', "quiet", '"drive_id": "data"', '"tap3"', '"guest_cid": 3'):
        expect(page.locator("pre").first).to_contain_text(part)
    expect(page.locator("pre").first).not_to_contain_text("rootfs")
    press(page, "Stop")
    press(page, "Delete")


def test_a_stale_button_does_nothing_and_says_who_was_faster(visit: Visit) -> None:
    slow, fast = visit(), visit()
    slow.goto("/machines/fresh")
    slow.route("**/state", lambda route: route.abort())  # its page does not learn of it
    fast.goto("/machines/fresh")
    press(fast, "Save setup")
    press(fast, "Start")
    expect(fast.locator("h1")).to_contain_text("fresh Running")
    press(slow, "Delete")
    expect(slow.get_by_role("alert").first).to_contain_text("fresh was Not started on this page")
    expect(slow.get_by_role("alert").first).to_contain_text("You did it elsewhere at")
    expect(slow.locator("h1")).to_contain_text("fresh Running")
    assert violations(slow) == []
    press(fast, "Stop")
    expect(fast.locator("h1")).to_contain_text("fresh Ended")


def test_the_list_is_searched_and_switched_by_keyboard_alone(visit: Visit) -> None:
    page = visit(width=390)
    page.get_by_label("Find a machine").focus()
    page.keyboard.type("demo")
    page.keyboard.press("Enter")
    expect(page.locator("ul.machines > li")).to_have_count(1)
    for button, state in (("Pause demo", "Paused"), ("Resume demo", "Running")):
        page.goto("/?find=demo")
        reach(page, button)
        page.keyboard.press("Enter")
        expect(in_list(page, "demo")).to_contain_text(state)


def reach(page: Page, label: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == label:
            return
    pytest.fail(f"{label} cannot be reached")


def test_a_preset_fills_in_what_it_shows_and_leaves_the_rest(visit: Visit) -> None:
    page = visit()
    page.goto("/new")
    page.get_by_label("Name", exact=True).fill("typed")
    for preset, size in (("Large", "2048"), ("Small", "128")):
        page.get_by_role("link", name=preset).click()
        expect(page.locator("#machine_config-mem_size_mib")).to_have_value(size)
        expect(page.locator("[data-preset][aria-current]")).to_contain_text(preset)
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed")
    page.reload()
    expect(page.locator("[data-preset][aria-current]")).to_contain_text("Small")
    expect(page.locator("#machine_config-mem_size_mib")).to_have_value("128")
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed")
    page.fill("#machine_config-mem_size_mib", "200")
    expect(page.locator("[data-preset][aria-current]")).to_have_count(0)


def test_the_style_and_the_script_are_kept_by_the_browser(visit: Visit) -> None:
    page = visit()
    with page.expect_response("**/console.css") as first:
        page.goto("/events")
    assert first.value.headers["cache-control"] == "public, max-age=31536000, immutable"
