"""Follows a tutorial as a reader does: its files in an empty folder, its programs started there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.examples.programs import reserved_port
from tests.forked import Forked
from tests.packaging.built import REPOSITORY

TITLED = re.compile(r'^```(?:python|toml) title="(.*?)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
EXPORTED = re.compile(r"^export (OIDC_\w+)=(.*)$", re.MULTILINE)
LAST_SETTING = "OIDC_ALLOW_INSECURE_HTTP=true\n"


def files_of(name: str) -> Mapping[str, str]:
    """The files that a tutorial shows, by name."""
    page = REPOSITORY / "docs" / "tutorials" / f"{name}.md"
    return dict(TITLED.findall(page.read_text()))


class Reader:
    """Somebody with an empty folder, and two terminals at other ports than the pages name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reserved = reserved_port()
        self.port = self._reserved.getsockname()[1]
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("OIDC_")
        }

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def write_files(self, tutorial: str) -> None:
        for name, text in files_of(tutorial).items():
            (self.folder / name).write_text(text)

    @contextmanager
    def two_terminals(self) -> Iterator[None]:
        """The provider in one, the application with its settings in the other."""
        provider = ["-m", "fastapi_oidc.testing", "--port=0", f"--app={self.address}"]
        server = ["-m", "uvicorn", "app:app", f"--port={self.port}"]
        with self._started(*provider, says=LAST_SETTING) as told:
            self._environment.update(EXPORTED.findall(told))
            with self._started(*server, says="Uvicorn running"), self._reserved:
                yield

    @contextmanager
    def _started(self, *arguments: str, says: str) -> Iterator[str]:
        """A program that runs while the block does; gives what it said until then."""
        with Forked[bytes](
            [sys.executable, "-u", *arguments],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                assert process.stdout is not None
                yield said_until(says, process.stdout)
            finally:
                process.terminate()


def said_until(words: str, output: IO[bytes]) -> str:
    """What a program says up to these words; fails when it ends without them."""
    said = b""
    while words.encode() not in said:
        character = output.read(1)
        assert character, said.decode()
        said += character
    return said.decode()
