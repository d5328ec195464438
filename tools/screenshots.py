"""`python -m tools.screenshots FOLDER`: pictures of the running console."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from examples.console.app import create_app
from examples.console.demo import parts
from examples.console.settings import ConsoleSettings
from tests.console.running import serving

FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars")
CHART_MILLISECONDS: Final = 90_000
"""Long enough for the chart of memory to have a shape."""


SCREEN_MILLISECONDS: Final = 1500
"""Long enough for a page to have looked once."""


def main(folder: Path) -> None:
    """Write the pictures of list, screen, guest, access, dark charts and phone into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        address = stack.enter_context(_console())
        playwright = stack.enter_context(sync_playwright())
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-headless-shell"),
            args=list(FLAGS),
        )
        desk = _sign_in(chromium, address, width=1200, height=800, scheme="light")
        dark = _sign_in(chromium, address, width=1200, height=800, scheme="dark")
        phone = _sign_in(chromium, address, width=390, height=844, scheme="light")
        desk.wait_for_timeout(CHART_MILLISECONDS)
        for name, page in (("-dark", dark), ("-phone", phone)):
            page.screenshot(path=folder / f"console{name}.png")
        desk.goto("/machines/demo/console")
        desk.wait_for_timeout(SCREEN_MILLISECONDS)
        desk.screenshot(path=folder / "console-screen.png")
        _use_the_guest(desk)
        desk.screenshot(path=folder / "console-guest.png")
        _give_access(desk)
        desk.screenshot(path=folder / "console-access.png")
        desk.goto("/")
        desk.wait_for_timeout(SCREEN_MILLISECONDS)
        desk.screenshot(path=folder / "console.png")
        chromium.close()


def _use_the_guest(page: Page) -> None:
    """Runs a command, and opens a terminal that shows nothing of this host."""
    page.goto("/machines/demo/guest")
    page.get_by_role("button", name="Open a terminal").click()
    page.get_by_role("textbox", name="Screen of the guest").focus()
    page.wait_for_timeout(SCREEN_MILLISECONDS)
    page.keyboard.type("PS1='guest# '; cd /; clear\n")
    page.wait_for_timeout(SCREEN_MILLISECONDS)
    page.keyboard.type("seq 3 | xargs -n1 echo line\n")
    page.wait_for_timeout(SCREEN_MILLISECONDS)
    page.evaluate("scrollTo(0, document.querySelector('.stack .card').offsetTop + 70)")


def _give_access(page: Page) -> None:
    """Gives the machine the calendar, and calls it."""
    page.goto("/machines/demo/guest")
    page.get_by_role("button", name="Give access").click()
    page.get_by_role("button", name="curl http").click()
    expect(page.get_by_text("1 call, the last one")).to_be_visible()
    page.evaluate("scrollTo(0, document.querySelector('.tabs').offsetTop - 80)")


@contextmanager
def _console() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = ConsoleSettings(
            port=port, provider_port=0, sockets={}, issuer=None, simulated_agent=True
        )
        with parts(settings) as console:
            app = create_app(console.oidc, console.monitors, apis=console.apis)
            with serving(app, listener):
                yield f"http://127.0.0.1:{port}"


def _sign_in(
    chromium: Browser, address: str, *, width: int, height: int, scheme: Literal["light", "dark"]
) -> Page:
    size = ViewportSize(width=width, height=height)
    context = chromium.new_context(
        viewport=size, color_scheme=scheme, device_scale_factor=1.5, base_url=address
    )
    page = context.new_page()
    page.goto(address)
    page.click("button[value=alice]")
    page.get_by_role("listitem").filter(has_text="Running").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Memory")).to_be_visible()
    return page


if __name__ == "__main__":
    main(Path(sys.argv[1]))
