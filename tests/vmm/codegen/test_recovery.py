"""Whatever became of the generated package, the next run makes it whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.tree import differences
from tests.vmm.codegen.descriptions import PROJECT, ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the project, codegen included, to run as a user does."""
    root = tmp_path / "project"
    for name in ("codegen", "openapi", "generated_vmm", "docs/vmm"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    PROJECT.mypy_cache.mkdir(parents=True, exist_ok=True)
    (root / ".mypy_cache").symlink_to(PROJECT.mypy_cache.parent)
    return root


def test_the_next_run_makes_the_package_whole(checkout: Path) -> None:
    """Of a broken package, left by a run that was killed between its two renames."""
    package = checkout / "generated_vmm" / "_generated"
    (package / "__init__.py").write_text("this is no Python", encoding="utf-8")
    shutil.copytree(package, package.with_name("._generated.new"))
    package.rename(package.with_name("._generated.old"))
    subprocess.run(
        [sys.executable, "-m", "codegen"], cwd=checkout, check=True, stdout=subprocess.DEVNULL
    )
    assert list(differences(package, PROJECT.package)) == []
    assert not list(package.parent.glob("._generated.*"))
