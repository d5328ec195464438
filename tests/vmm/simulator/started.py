"""The simulated monitor as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

PATIENCE = 30
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts the program and reads its log until it serves; what still runs is killed."""
    with ExitStack() as stack:

        def begin(*arguments: str) -> subprocess.Popen[bytes]:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "generated_vmm.testing", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            return process

        yield begin


def config(folder: Path, **members: object) -> Path:
    path = folder / "config.json"
    whole = {"boot-source": {"kernel_image_path": "/k"}, "drives": [], "balloon": None, **members}
    path.write_text(json.dumps(whole))
    return path
