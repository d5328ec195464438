"""The same description gives the same bytes, anywhere, without the network and quickly."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from codegen.tree import differences
from tests.vmm.codegen.descriptions import PROJECT, ROOT

# Imported by every Python that the run starts: whoever opens a connection fails.
OFFLINE = """
import socket
def refuse(*_, **__):
    raise RuntimeError("no network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""
# All but the trial, whose time is that of mypy.
MAKE = """
import sys
from pathlib import Path
from codegen.pipeline import Project, make
project = Project(Path(sys.argv[1]))
make(project, project.description(), Path(sys.argv[2]))
"""
SECONDS = 5  # of processor time


def generate(out: Path, folder: Path, **environment: str) -> None:
    """Generate in a process of its own, started elsewhere and cut off from the network."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(OFFLINE, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", MAKE, str(ROOT), str(out)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{site}:{ROOT}", **environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def test_hash_seed_and_folder_change_nothing_in_five_seconds(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    generate(tmp_path / "out", tmp_path, PYTHONHASHSEED="0", LC_ALL="C", TZ="Asia/Tokyo")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
    assert list(differences(tmp_path / "out" / "_generated", PROJECT.package)) == []
    made = tmp_path / "out" / PROJECT.description().name
    assert made.read_bytes() == PROJECT.description().read_bytes()
