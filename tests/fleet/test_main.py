"""`python -m examples.fleet` as a person starts and ends it."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.programs import require_program

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 90
ANY_PORTS = {"FLEET_PORT": "0", "FLEET_PROVIDER_PORT": "0"}


@contextmanager
def started(variables: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.fleet"],
        cwd=REPOSITORY,
        env=os.environ | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()  # and not killed: it ends what it started
            process.wait(PATIENCE)


def said_until(fleet: subprocess.Popen[str], words: str) -> str:
    """What it prints up to the line with these words."""
    assert fleet.stdout
    said = ""
    while words not in said:
        line = fleet.stdout.readline()
        assert line, fleet.communicate()
        said += line
    return said


def test_nothing_is_left_of_it() -> None:
    require_program("redis-server", package="redis-server")
    require_program("nginx", package="nginx")
    with started(ANY_PORTS) as fleet:
        welcome = said_until(fleet, "Stop with")
        pids = [int(pid) for pid in re.findall(r"pid (\d+)", welcome)]
        [folder] = re.findall(r"Logs and sockets +(/\S+)", welcome)
        assert len(set(pids)) == 8
        assert all(psutil.pid_exists(pid) for pid in pids)
        assert Path(folder).is_dir()

        for _ in range(3):  # somebody who is impatient leaves nothing behind, either
            fleet.send_signal(signal.SIGINT)
        assert fleet.wait(PATIENCE) == 0
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"FLEET_PORT": "https"}, "FLEET_PORT must be a port number, not 'https'"),
        ({"FLEET_PORT": "TAKEN"}, r"port \d+ of 127.0.0.1 cannot be used .*with FLEET_PORT"),
        ({"FLEET_PROVIDER_PORT": "TAKEN"}, r"the provider's port \d+: Address already in use"),
    ],
)
def test_what_cannot_work_is_one_sentence(variables: dict[str, str], why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given = {name: value.replace("TAKEN", port) for name, value in variables.items()}
        with started(ANY_PORTS | given) as fleet:
            _, said = fleet.communicate(timeout=PATIENCE)
    assert fleet.returncode == 2
    assert re.search(f"^The fleet cannot start: {why}", said, re.MULTILINE)
    assert "Traceback" not in said
