"""Follows a tutorial as a reader does: its files in an empty folder, its programs started there."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.packaging.built import REPOSITORY

TITLED = re.compile(r'^```(?:python|toml) title="(.*?)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
SETTINGS = re.compile(r'^```sh title="settings"\n(.*?)^```', re.MULTILINE | re.DOTALL)
PROVIDER, APPLICATION = "9400", "8000"  # the ports that the pages name


def text_of(name: str) -> str:
    return (REPOSITORY / "docs" / "tutorials" / f"{name}.md").read_text()


def files_of(name: str) -> Mapping[str, str]:
    """The files that a tutorial shows, by name."""
    return dict(TITLED.findall(text_of(name)))


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


class Reader:
    """Somebody with an empty folder, and other ports than the pages name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {PROVIDER: free_port(), APPLICATION: free_port()}
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("OIDC_")
        }

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.ports[APPLICATION]}"

    def write_files(self, tutorial: str) -> None:
        for name, text in files_of(tutorial).items():
            (self.folder / name).write_text(self._with_own_ports(text))

    def make_settings(self) -> None:
        [commands] = SETTINGS.findall(text_of("sign-in"))
        subprocess.run(
            ["bash", "-eu", "-c", self._with_own_ports(commands)], cwd=self.folder, check=True
        )

    def run(self, *arguments: str) -> str:
        """What a Python program prints; fails when it does."""
        result = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    @contextmanager
    def two_terminals(self) -> Iterator[None]:
        """The provider in one, the application in the other, while the block runs."""
        server = ["-m", "uvicorn", "app:app", "--env-file", ".env"]
        with (
            self._started("provider.py", says="Press Enter"),
            self._started(*server, f"--port={self.ports[APPLICATION]}", says="Uvicorn running"),
        ):
            yield

    @contextmanager
    def _started(self, *arguments: str, says: str) -> Iterator[None]:
        with subprocess.Popen(
            [sys.executable, "-u", *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                assert process.stdout is not None
                wait_for(says, process.stdout)
                yield
            finally:
                process.terminate()

    def _with_own_ports(self, text: str) -> str:
        for named, own in self.ports.items():
            text = re.sub(rf"\b{named}\b", own, text)
        return text


def wait_for(words: str, output: IO[bytes]) -> None:
    """Read until the program has said these words; fails when it ends without them."""
    said = b""
    while words.encode() not in said:
        character = output.read(1)
        assert character, said.decode()
        said += character
