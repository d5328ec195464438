"""What decides, and the tests that hold it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]

AREAS: Final[Mapping[str, tuple[str, ...]]] = {
    "fastapi_oidc/protocol/": ("tests/oidc/protocol",),
    "fastapi_oidc/resource_server/": ("tests/oidc/resource_server",),
    "fastapi_oidc/grants/": ("tests/oidc/grants",),
    "fastapi_oidc/flows/": ("tests/oidc/flows", "tests/oidc/web/test_sessions.py"),
    "fastapi_oidc/session/redis.py": (
        "tests/oidc/session",
        "tests/oidc/redis_topologies/test_operations.py",
    ),
    "fastapi_oidc/session/": ("tests/oidc/session", "tests/oidc/web/test_require_auth.py"),
    "fastapi_oidc/broker/": ("tests/oidc/broker",),
    "generated_vmm/transport/": ("tests/vmm/transport", "tests/vmm/facade", "tests/vmm/vsock"),
}
"""Folder of modules -> the tests, folders or files, that must notice every change of them; of two
folders that have a module the first."""

UNRUN: Final = (
    "tests/oidc/broker/test_processes.py",
    "tests/vmm/facade/test_warnings.py",
)
"""Tests that play no part: for the calls on the stack, to which mutmut adds its own, or because
they start processes or sign eighty users in, and hold together what quick tests beside them hold
one by one."""

USUAL: Final = (
    "fastapi_oidc/protocol/access_token.py",
    "fastapi_oidc/protocol/claims.py",
    "fastapi_oidc/protocol/id_token.py",
    "fastapi_oidc/protocol/encoding.py",
    "fastapi_oidc/protocol/jose/keys.py",
)
"""What is played when nothing that decides was changed: who is let in at all."""


def modules(named: Iterable[str], base: str) -> list[str]:
    """The modules that were named, else those that differ from `base`, else the usual ones.

    Raises ValueError for what is no module of `AREAS`, and for a base that git does not know.
    """
    chosen = sorted(set(named)) or [name for name in _changed_since(base) if _decides(name)]
    for name in chosen:
        if not _decides(name):
            raise ValueError(f"no module of {', '.join(AREAS)} that can be played: {name}")
    return chosen or list(USUAL)


def folders_for(chosen: Iterable[str]) -> list[str]:
    """The tests that hold these modules."""
    return sorted({folder for name in chosen for folder in AREAS[_area(name)]})


def _decides(name: str) -> bool:
    is_module = name.endswith(".py") and (REPOSITORY / name).is_file()
    return is_module and bool(_area(name))


def _area(name: str) -> str:
    return next((area for area in AREAS if name.startswith(area)), "")


def _changed_since(base: str) -> list[str]:
    """The files that differ from the commit where this branch left `base`, committed or not."""
    command = ["git", "diff", "--name-only", "--merge-base", base, "--", *AREAS]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if answer.returncode:
        raise ValueError(f"name the modules, or another base: {answer.stderr.strip()}")
    return answer.stdout.splitlines()
