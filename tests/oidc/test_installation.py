"""Another distribution on PyPI installs a package `fastapi_oidc`, over ours or below it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OURS = Path(__file__).parents[2] / "fastapi_oidc"
REMEDY = "pip uninstall fastapi-oidc fastapi-oidc-vmm, then pip install fastapi-oidc-vmm"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with our files and the record of the other distribution."""
    shutil.copytree(OURS, tmp_path / "fastapi_oidc", ignore=shutil.ignore_patterns("__pycache__"))
    record = tmp_path / "fastapi_oidc-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.4\nName: fastapi-oidc\nVersion: 0.1.0\n")
    return tmp_path


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=site, capture_output=True, text=True, check=False, timeout=60
    )


def test_an_import_says_how_to_separate_the_two(site: Path) -> None:
    ended = run(site, "-c", "import fastapi_oidc")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ImportError: the distribution 'fastapi-oidc'")
    assert REMEDY in ended.stderr


def test_the_doctor_says_it_where_the_other_one_was_installed_later(site: Path) -> None:
    (site / "fastapi_oidc" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    ended = run(site, "-m", "fastapi_oidc", "doctor")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert REMEDY in ended.stderr


def test_another_folder_with_the_other_one_changes_nothing(site: Path) -> None:
    shutil.rmtree(site / "fastapi_oidc")
    ended = run(site, "-c", "import fastapi_oidc, sys; print(fastapi_oidc.__file__)")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip() == str(OURS / "__init__.py")
