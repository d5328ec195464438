"""Node's own HTTP client, in a process of its own that is asked for so many calls at a time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tools.benchmarks.rounds import Cost
from tools.benchmarks.vmm_server import BODY, PATH

PROGRAM: Final = shutil.which("node")
SCRIPT: Final = Path(__file__).with_name("vmm_node.mjs")
NAME: Final = "Node, http.Agent with keepAlive"


class Node:
    """The batch that has Node call, and what Node says that this cost."""

    def __init__(self, method: str, asked: IO[str], answers: IO[str]) -> None:
        self._method, self._asked, self._answers = method, asked, answers
        self._told = Cost()

    def __call__(self, calls: int) -> None:
        """Waits for so many calls."""
        print(self._method, calls, file=self._asked, flush=True)
        wall, cpu = self._answers.readline().split()
        self._told.wall.append(int(wall) / calls / 1000)
        self._told.cpu.append(int(cpu) / calls / 1000)

    def told(self, rounds: int) -> Cost:
        """Of the last rounds; what came before was no round."""
        return Cost(self._told.wall[-rounds:], self._told.cpu[-rounds:])


@contextmanager
def node(method: str, socket: str) -> Iterator[dict[str, Node]]:
    """The case, for as long as the block runs; none where there is no Node."""
    if PROGRAM is None:
        yield {}
        return
    command = [PROGRAM, str(SCRIPT), socket, PATH, BODY.decode()]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield {NAME: Node(method, process.stdin, process.stdout)}
