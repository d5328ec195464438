"""What tests do with a page, and what they ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from playwright.sync_api import Page, expect

PATIENCE = 30_000
"""Milliseconds: a busy computer is no fault of the console."""

Scheme: TypeAlias = Literal["light", "dark"]
Visit: TypeAlias = Callable[..., Page]


def press(page: Page, label: str) -> None:
    page.get_by_role("button", name=label, exact=True).click()


def unfold(page: Page, title: str) -> None:
    page.locator("summary", has_text=title).first.click()


def unfold_all(page: Page) -> None:
    page.eval_on_selector_all("main details", "all => all.forEach(one => { one.open = true })")


def set_up(page: Page) -> None:
    press(page, "Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
