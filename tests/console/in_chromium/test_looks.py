"""What is looked at rather than read: charts and colours, also in forced colours."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.chromium import violations
from tests.console.in_chromium.pages import Scheme, alice_at, press, visiting
from tests.console.running import RunningConsole, hosting_console

# In one call: what the page replaces meanwhile has no style any more.
STROKES: Final = """[getComputedStyle(document.querySelector('.use')).backgroundColor,
  ...[...document.querySelectorAll('.line')].map(line => getComputedStyle(line).stroke)]"""
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")


@pytest.fixture
def page(chromium: Browser, host: RunningConsole) -> Iterator[Page]:
    """The list of machines, one of which runs."""
    with alice_at(chromium, host) as page:
        yield page


def in_each_scheme(page: Page) -> Iterator[str]:
    """Shows the page in light, dark and forced colours, one after the other."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        yield scheme
    page.emulate_media(color_scheme="light", forced_colors="active")
    yield "forced"


def test_the_list_tells_uptime_and_use(page: Page) -> None:
    machine = page.get_by_role("listitem").filter(has_text="demo")
    expect(machine.locator("time")).to_have_text(re.compile(r"up \d+ (s|min)"))
    expect(machine.locator("time")).to_have_attribute("title", re.compile("since .*20"))
    for colours in in_each_scheme(page):
        expect(machine).to_contain_text(re.compile(r"Processor \d+ % · Memory \d+ MiB"))
        assert violations(page) == [], colours


def test_charts_are_alive_and_their_lines_can_be_seen(page: Page) -> None:
    page.goto("/machines/demo")
    chart = page.get_by_role("img", name=re.compile("Network over"))
    first = chart.get_attribute("aria-label")
    expect(chart).not_to_have_attribute("aria-label", first or "")
    for colours in in_each_scheme(page):
        assert violations(page) == [], colours
        ground, *strokes = page.evaluate(STROKES)
        assert re.match(r"rgb\(", ground)
        assert len(strokes) == 8
        for stroke in strokes:
            assert re.match(r"rgb\(", stroke), colours
            assert stroke != ground, colours


def test_the_way_to_the_first_machine_is_accessible(chromium: Browser) -> None:
    with hosting_console(is_empty=True) as console, visiting(chromium, console) as visit:
        page = visit("", viewport=ViewportSize(width=390, height=844))
        page.click("button[value=alice]")
        expect(page.get_by_role("img", name=re.compile("Processor over"))).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("link", name="Create a machine").click()
        page.get_by_label("Name", exact=True).fill("first")
        press(page, "Create machine")
        expect(page.locator("h1")).to_contain_text("first Running")
