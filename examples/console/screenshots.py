"""`python -m examples.console.screenshots FOLDER`: pictures of the running demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with demo() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        desktop = browser.new_page(viewport={"width": 1120, "height": 760}, color_scheme="light")
        sign_in(desktop, url)
        start(desktop)
        desktop.screenshot(path=folder / "console.png")
        desktop.emulate_media(color_scheme="dark")
        desktop.set_viewport_size({"width": 390, "height": 780})
        desktop.screenshot(path=folder / "console-phone-dark.png")
        browser.close()


@contextmanager
def demo() -> Iterator[str]:
    """The demo on free ports; yields the console's address."""
    environment = os.environ | {"CONSOLE_PORT": "0", "CONSOLE_PROVIDER_PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.console"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _address(process)
    finally:
        process.terminate()
        process.wait(10)


def _address(process: subprocess.Popen[str]) -> str:
    for line in process.stdout or ():
        found = re.search(r"microVM console\s+(http://\S+)", line)
        if found is not None:
            return found[1]
    raise SystemExit("the demo did not start")


def sign_in(page: Page, url: str) -> None:
    """Alice, the admin, is signed in."""
    page.goto(url)
    page.get_by_role("button", name="Alice Admin").click()
    page.wait_for_url(f"{url}/**")


def start(page: Page) -> None:
    """The demo's machine is set up as its form suggests, and runs."""
    page.get_by_role("button", name="Save setup").click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("button", name="Pause", exact=True).wait_for()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
