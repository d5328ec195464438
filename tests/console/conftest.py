"""The console with its demo parts, served over real sockets, and people with browsers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from generated_vmm import API_VERSION
from tests.console.browser import Browser
from tests.console.running import ALICE, BOB, RunningConsole, end_processes_of, hosting_console


def version_of(text: str) -> tuple[int, ...]:
    """A release as numbers."""
    return tuple(int(number) for number in text.split(".")[:2])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "since(version): of a monitor of this release or newer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out tests of what the monitor lacks that the client is made for."""
    made_for = version_of(API_VERSION)
    items[:] = [
        item
        for item in items
        if all(version_of(mark.args[0]) <= made_for for mark in item.iter_markers("since"))
    ]


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder. Monitors that a console keeps in it end with the test, however that ends."""
    yield tmp_path
    end_processes_of(tmp_path)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for sockets, whose paths have at most 107 bytes; as above."""
    with TemporaryDirectory(prefix="vm-") as name:
        yield Path(name)
        end_processes_of(Path(name))


@pytest.fixture(scope="module")
def one_console() -> Iterator[RunningConsole]:
    with hosting_console(is_empty=True) as console:
        yield console


@pytest.fixture(scope="module")
def host() -> Iterator[RunningConsole]:
    """A console that starts simulated monitors itself."""
    with hosting_console() as console:
        yield console


@pytest.fixture
def console(one_console: RunningConsole) -> RunningConsole:
    """A console with one machine, `demo`, of which nothing was set up."""
    one_console.server.do(one_console.begin_anew())
    return one_console


@pytest.fixture(scope="module")
def kept_cookies() -> dict[str, httpx.Cookies]:
    """What the browsers of this module's people have of earlier tests, by person."""
    return {}


@pytest.fixture
def sign_in(
    console: RunningConsole, kept_cookies: dict[str, httpx.Cookies]
) -> Iterator[Callable[[str], Browser]]:
    """Signs a person of the demo in, unless an earlier test did."""
    with ExitStack() as stack:

        def sign_in(name: str) -> Browser:
            browser = stack.enter_context(Browser(console.url, kept_cookies.get(name)))
            browser.home()
            if browser.has_button(name):
                browser.click(name)
            kept_cookies[name] = browser.cookies
            browser.open("/machines/demo")
            return browser

        yield sign_in


@pytest.fixture
def alice(sign_in: Callable[[str], Browser]) -> Browser:
    return sign_in(ALICE)


@pytest.fixture
def bob(sign_in: Callable[[str], Browser]) -> Browser:
    return sign_in(BOB)
