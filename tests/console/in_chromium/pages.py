"""What tests do with a page, and what they ask of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from playwright.sync_api import Page, expect

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
# Neither the selector of each element nor the rules that hold, which nobody looks at.
VIOLATIONS = """axe.run({ resultTypes: ["violations"], selectors: false, preload: false })
  .then(({ violations }) => violations)"""
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


def violations(page: Page) -> list[str]:
    """The rules of axe that the page breaks, each with the elements that do."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate(VIOLATIONS)
    return [f"{rule['id']}: {[node['html'] for node in rule['nodes']]}" for rule in found]
