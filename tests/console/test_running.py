"""What tests of the console start ends with them."""

import time
from pathlib import Path

from tests.console.browser import create
from tests.console.running import end_processes_of, hosting_console, pid_of, signed_in
from tests.fleet.test_program import is_running


def test_machines_that_a_test_left_running_are_ended(tmp_path: Path) -> None:
    with hosting_console(tmp_path) as console, signed_in(console) as alice:
        alice.open_until("demo Running", "/")
        create(alice, "left")
        pids = [pid_of(console, name) for name in ("demo", "left")]
    assert all(is_running(pid) for pid in pids)
    end_processes_of(tmp_path)
    while any(is_running(pid) for pid in pids):
        time.sleep(0.01)
