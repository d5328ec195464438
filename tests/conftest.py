"""What holds for every test: examples, limits, garbage, authorities of TLS, and one Chromium."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.chromium import Chromium

# A deadline for each example would measure the machine and not the code. In CI the examples are the
# same each time: a new one is found where somebody can look at it.
settings.register_profile(
    "repository",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repository")

# A shell starts what runs in its background with this signal ignored, and programs inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests call no host of the internet. A client of httpx reads all authorities of this machine, which
# takes more processor time than most tests; this folder has none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.path.dirname(__file__)

LATEST: Final = pytest.StashKey[pytest.Item]()
"""The test that has been torn down last."""

# A run takes as long as what begins last: these take a minute each.
LONGEST: Final = ("codegen/test_trial.py", "process/test_every_moment.py")

AGAIN_SECONDS, LAST_SECONDS = 10.0, 30.0
"""From a test's limit to its next interruption, and to the end of its process."""
LIMIT: Final = pytest.StashKey[Any]()
"""The limit of a test, as pytest-timeout knows it."""

gc.disable()  # until all tests are collected, which makes objects and no garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()  # collections need not look at the modules


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Interrupts a test at its limit, and again where it waits again: in a `finally`, a fixture.

    At last its process ends, with the stacks of its threads: a wait in a callback of an event loop,
    or for a lock of the interpreter, cannot be interrupted.
    """
    found = yield
    item.stash[LIMIT] = settings
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_SECONDS)
    end, where = settings.timeout + LAST_SECONDS, item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(end, exit=True, file=where)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer() -> Generator[None, object, object]:
    faulthandler.cancel_dump_traceback_later()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """A report is not interrupted: pytest itself would fail."""
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(left, again) if left else 0, again)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest-timeout cancels the limit of a test that has failed, and is to be torn down."""
    if LIMIT in node.stash and not node.config.option.usepdb:
        node.ihook.pytest_timeout_set_timer(item=node, settings=node.stash[LIMIT])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[LATEST] = item


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a module leaves open fails in that module, not in a later test."""
    yield
    latest = request.config.stash.get(LATEST, None)
    if isinstance(latest, pytest.Function):
        latest.funcargs.clear()  # which pytest itself forgets after the module's end only
    gc.collect()
    gc.freeze()  # what stays, stays until the end: looking at it again each time takes minutes


@pytest.fixture(scope="session")
def one_chromium() -> Iterator[Chromium]:
    """Playwright is imported where a test uses it."""
    from tests.chromium import chromium_of_worker

    with chromium_of_worker() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def chromium(one_chromium: Chromium) -> Iterator[Browser]:
    """The browser of this worker; while a file uses it, no asynchronous test can run."""
    with one_chromium.used() as browser:
        yield browser
