"""A console that starts machines, in Chromium: all its pages, and what is done on them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.chromium import violations
from tests.console.in_chromium.pages import (
    Scheme,
    Visit,
    in_list,
    press,
    reach,
    unfold_all,
    visiting,
)
from tests.console.running import RunningConsole

TABS = ("devices", "memory", "metadata", "configuration")
PAGES = (
    *("/", "/images", "/events", "/new", "/new/snapshot", "/?find=ended"),
    *(f"/machines/{name}" for name in ("demo", "ended", "paused", "fresh")),
    *(f"/machines/{name}/snapshots" for name in ("demo", "ended", "paused")),
    *(f"/machines/{name}/{tab}" for name in ("demo", "fresh") for tab in TABS),
    *("/machines/ended/console", "/machines/paused/restart", "/nowhere", "/signed-out"),
)


@contextmanager
def agreeing(chromium: Browser, host: RunningConsole) -> Iterator[Visit]:
    """Signs people in who agree to every question."""
    with visiting(chromium, host) as sign_in:

        def sign_in_and_agree(name: str = "alice", *, width: int = 1280) -> Page:
            page = sign_in(name, viewport=ViewportSize(width=width, height=900))
            page.on("dialog", lambda dialog: dialog.accept())
            return page

        yield sign_in_and_agree


@pytest.fixture
def visit(chromium: Browser, host: RunningConsole) -> Iterator[Visit]:
    with agreeing(chromium, host) as sign_in:
        yield sign_in


@pytest.fixture(scope="module")
def furnished(chromium: Browser, host: RunningConsole) -> None:
    """Alice has made a machine in each state, and a snapshot."""
    with agreeing(chromium, host) as visit:
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
    ("person", "width", "scheme"),
    [("alice", 1280, "light"), ("alice", 390, "dark"), ("bob", 390, "dark")],
)
def test_every_page_is_accessible_and_fits_in_every_state(
    visit: Visit, furnished: None, person: str, width: int, scheme: Scheme
) -> None:
    page = visit(person, width=width)
    page.emulate_media(color_scheme=scheme)
    for path in PAGES:
        if person == "alice" or not path.startswith("/new"):
            page.goto(path)
            unfold_all(page)
            assert violations(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.goto("/")
    page.click("summary")
    assert violations(page) == []


def test_the_list_is_searched_and_switched_by_keyboard_alone(visit: Visit) -> None:
    page = visit(width=390)
    page.get_by_label("Find a machine").focus()
    page.keyboard.type("demo")
    page.keyboard.press("Enter")
    expect(page.locator("ul.machines > li")).to_have_count(1)
    for button, state in (("Pause demo", "Paused"), ("Resume demo", "Running")):
        page.goto("/?find=demo")
        reach(page, button)
        expect(in_list(page, "demo")).to_contain_text(state)
