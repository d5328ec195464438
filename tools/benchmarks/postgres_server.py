"""A PostgreSQL server of our own: on a unix socket in a temporary folder, which goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

DEBIAN: Final = Path("/usr/lib/postgresql")
"""Where Debian's package has the programs of each version, outside every path."""

NOT_DURABLE: Final = ("-c", "fsync=off", "-c", "full_page_writes=off")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0


def postgres_folder() -> Path | None:
    """The folder of `initdb` and `postgres`; of several versions the newest."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    program = found[-1] if found else shutil.which("initdb")
    return Path(program).resolve().parent if program else None


@contextmanager
def postgres_server(
    programs: Path, options: Sequence[str] = ()
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The URL of a new, empty server, for SQLAlchemy, and its process."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        account = _account(folder)
        # Locale and encoding are the same on every machine.
        made = ["--pgdata", "data", "--username", "postgres", "--auth", "trust", "--no-sync"]
        with (folder / "log").open("wb") as log:
            subprocess.run(
                [programs / "initdb", *made, "--encoding", "UTF8", "--locale", "C"],
                check=True,
                stdout=log,
                stderr=log,
                **account,
            )
            settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
            server = subprocess.Popen(
                [programs / "postgres", "-D", "data", *settings, *options],
                stdout=log,
                stderr=log,
                **account,
            )
        with server:
            try:
                _wait_until_ready(folder, server)
                yield f"postgresql+asyncpg://postgres@/postgres?host={folder}", server
            finally:
                server.send_signal(signal.SIGINT)  # ends its connections, too
                server.wait(STOP_SECONDS)
    finally:
        shutil.rmtree(folder)


def _account(folder: Path) -> dict[str, Any]:
    """Options of a process that works in `folder`; PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {"cwd": folder}
    name = next(name for name in ("postgres", "nobody") if name in _accounts())
    shutil.chown(folder, name)
    return {"cwd": folder, "user": name, "extra_groups": []}


def _accounts() -> set[str]:
    return {each.pw_name for each in pwd.getpwall()}


def _wait_until_ready(folder: Path, server: subprocess.Popen[bytes]) -> None:
    """Its postmaster.pid has the state in the last line, as pg_ctl reads it."""
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if (folder / "data" / "postmaster.pid").read_text().split()[-1:] == ["ready"]:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text()}")
