"""`python -m tools.benchmarks.curves`: which pictures there are, and how they are made."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tools.benchmarks.curves.beside_others import AMOUNTS
from tools.benchmarks.curves.evictions import LIMITS, login_at_the_limit
from tools.benchmarks.curves.growth import tell
from tools.benchmarks.curves.live_endings import request_over_live_endings
from tools.benchmarks.curves.live_sessions import request_over_live_sessions
from tools.benchmarks.curves.load import fifty_connections
from tools.benchmarks.curves.login_parts import where_a_login_goes
from tools.benchmarks.curves.memory import memory_of_a_session
from tools.benchmarks.curves.monitors import monitors_in_a_process
from tools.benchmarks.curves.pending_logins import request_over_pending_logins
from tools.benchmarks.curves.pictures import Picture, keep
from tools.benchmarks.curves.sizes import request_over_size
from tools.benchmarks.curves.storms import storms_over_sessions
from tools.benchmarks.figures import FOLDER, write_pages
from tools.benchmarks.machine import machine
from tools.benchmarks.targets import report

MOST: Final = 1_000_000
LONGEST: Final = 1800.0
"""Seconds after which one picture is given up."""

PICTURES: Final[Mapping[str, Callable[[int], Picture]]] = {
    "request-over-size": lambda most: request_over_size(),
    "request-over-live-sessions": lambda most: request_over_live_sessions(up_to(most, AMOUNTS)),
    "request-over-live-endings": lambda most: request_over_live_endings(up_to(most, AMOUNTS)),
    "request-over-pending-logins": lambda most: request_over_pending_logins(),
    "login-at-the-limit": lambda most: login_at_the_limit(up_to(most, LIMITS)),
    "memory-of-a-session": lambda most: memory_of_a_session(),
    "where-a-login-goes": lambda most: where_a_login_goes(),
    "fifty-connections": lambda most: fifty_connections(),
    "storms": lambda most: storms_over_sessions(),
    "monitors-in-a-process": lambda most: monitors_in_a_process(
        os.environ.get("FIRECRACKER_BIN", "")
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and draws what was asked for; the exit status: 0 when nothing was missed."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.curves")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--most", type=int, default=MOST, help="the most sessions of a store")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    parser.add_argument("--in-this-process", action="store_true", help="of one picture")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(PICTURES):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if asked.in_this_process:
        return max(drawn(name, asked.most, asked.folder) for name in asked.names)
    status = all_drawn(asked.names or list(PICTURES), asked.most, asked.folder)
    if asked.folder == FOLDER:
        write_pages()
    return status


def drawn(name: str, most: int, folder: Path) -> int:
    """Measures one picture and keeps it; the exit status."""
    place = machine()
    picture = PICTURES[name](most)
    folder.mkdir(parents=True, exist_ok=True)
    keep(name, picture, folder, place)
    return report(picture.targets)


def all_drawn(names: Sequence[str], most: int, folder: Path) -> int:
    """Each in a process of its own; the exit status."""
    wrong = []
    for number, name in enumerate(names, 1):
        began = time.monotonic()
        tell(f"{number} of {len(names)}: {name}")
        if not alone(name, most, folder):
            wrong.append(name)
        tell(f"{name} took {time.monotonic() - began:.0f} s")
    if wrong:
        tell(f"missed a target, or failed: {', '.join(wrong)}")
    return 1 if wrong else 0


def alone(name: str, most: int, folder: Path) -> bool:
    """Whether it was drawn and its targets were met; nothing that it started goes on."""
    options = ["--in-this-process", "--most", str(most), "--folder", str(folder), name]
    command = [sys.executable, "-m", "tools.benchmarks.curves", *options]
    child = subprocess.Popen(command, start_new_session=True)
    try:
        return child.wait(LONGEST) == 0
    except subprocess.TimeoutExpired:
        tell(f"{name} took longer than {LONGEST:g} s and was given up")
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def up_to(most: int, amounts: Sequence[int]) -> tuple[int, ...]:
    """The amounts that are not larger."""
    return tuple(amount for amount in amounts if amount <= most)
