"""A PostgreSQL server of our own, as tools/benchmarks starts one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.programs import require_program
from tools.benchmarks.postgres_server import NOT_DURABLE, postgres_folder, postgres_server


@contextmanager
def running_postgres(
    options: Sequence[str] = (),
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yields the URL of a new, empty server, and its process; ends it afterwards."""
    programs = postgres_folder()
    if programs is None:
        require_program("initdb", package="postgresql")
    assert programs is not None
    with postgres_server(programs, [*NOT_DURABLE, *options]) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """One server for the whole run; each test empties its tables."""
    with running_postgres() as (url, _):
        yield url
