"""What tests do with a page, and what they ask of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeAlias

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Response, expect

from tests.chromium import profile
from tests.console.running import RunningConsole

PATIENCE = 30_000
"""Milliseconds: a busy computer is no fault of the console."""

Scheme: TypeAlias = Literal["light", "dark"]
Visit: TypeAlias = Callable[..., Page]


@contextmanager
def visiting(chromium: Browser, house: RunningConsole) -> Iterator[Visit]:
    """Signs people in, each in a profile of their own; who has no name only looks."""
    with ExitStack() as stack:

        def sign_in(name: str = "alice", **options: Any) -> Page:
            context = stack.enter_context(profile(chromium, base_url=house.url, **options))
            page = context.new_page()
            page.goto("/")
            if name:
                page.click(f"button[value={name}]")
                expect(in_list(page, "demo")).to_contain_text("Running", timeout=PATIENCE)
            return page

        yield sign_in


@contextmanager
def alice_at(chromium: Browser, host: RunningConsole, **options: Any) -> Iterator[Page]:
    """The list of machines as an admin sees it, one of which runs."""
    with visiting(chromium, host) as visit:
        yield visit(**options)


def in_list(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=name)


def complaints_of(context: BrowserContext) -> list[str]:
    """What the pages complain of from now on, and what they load by themselves and is not there."""
    complaints: list[str] = []

    def note(text: str) -> None:
        # Chromium notes every response of 400 and above; those to a refused form are wanted.
        if "Failed to load resource" not in text:
            complaints.append(text)

    def note_missing(response: Response) -> None:
        if response.status == 404 and response.request.resource_type != "document":
            complaints.append(f"404 {response.url}")

    context.on("weberror", lambda error: note(str(error.error)))
    context.on("console", lambda message: note(message.text))
    context.on("response", note_missing)
    return complaints


def press(page: Page, label: str) -> None:
    page.get_by_role("button", name=label, exact=True).click()


def reach(page: Page, label: str) -> None:
    """Press a button by the keyboard alone."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == label:
            return page.keyboard.press("Enter")
    pytest.fail(f"{label} cannot be reached")


def unfold(page: Page, title: str) -> None:
    page.locator("summary", has_text=title).first.click()


def unfold_all(page: Page) -> None:
    page.eval_on_selector_all("main details", "all => all.forEach(one => { one.open = true })")


def set_up(page: Page) -> None:
    press(page, "Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
