"""Machines of a console that starts them, made and deleted as a person does."""

from __future__ import annotations

from tests.console.browser import Browser


def create(browser: Browser, name: str, **typed: str) -> None:
    """A machine that runs, unless the form says otherwise; `section__field` names a field."""
    browser.open("/new")
    fields = {field.replace("__", "."): text for field, text in typed.items()}
    browser.click("Create machine", {"new.name": name, **fields})


def delete(browser: Browser, name: str) -> None:
    """Stop the machine if it runs, and delete it."""
    browser.open(f"/machines/{name}")
    if browser.has_button("Stop"):
        browser.click("Stop")
    browser.click("Delete")


def do(browser: Browser, name: str, tab: str, button: str, typed: dict[str, str]) -> None:
    """Press a button on a tab of the machine."""
    browser.open(f"/machines/{name}/{tab}")
    browser.click(button, typed)


def start(browser: Browser, tab: str) -> None:
    """Set the machine `demo` up, start it, and go on to a tab."""
    browser.open("/machines/demo/overview")
    browser.click("Save setup")
    browser.click("Start")
    browser.open(f"/machines/demo/{tab}")
