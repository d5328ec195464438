"""What tests do with a page, and what they ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from tests.chromium import profile
from tests.console.running import RunningConsole

PATIENCE = 30_000
"""Milliseconds: a busy computer is no fault of the console."""

Scheme: TypeAlias = Literal["light", "dark"]
Visit: TypeAlias = Callable[..., Page]


@contextmanager
def alice_at(chromium: Browser, host: RunningConsole, **options: Any) -> Iterator[Page]:
    """The list of machines as an admin sees it, one of which runs."""
    with profile(chromium, base_url=host.url, **options) as context:
        page = context.new_page()
        page.goto("/")
        page.click("button[value=alice]")
        expect(page.get_by_role("listitem").filter(has_text="demo")).to_contain_text("Running")
        yield page


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


def unfold(page: Page, title: str) -> None:
    page.locator("summary", has_text=title).first.click()


def unfold_all(page: Page) -> None:
    page.eval_on_selector_all("main details", "all => all.forEach(one => { one.open = true })")


def set_up(page: Page) -> None:
    press(page, "Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
