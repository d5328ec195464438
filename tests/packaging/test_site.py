"""The documentation site: complete, unbroken, and in need of no other host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fastapi_oidc
import fastapi_oidc.testing
import generated_vmm
import generated_vmm.process
import generated_vmm.testing
from tests.packaging.built import REPOSITORY
from tests.packaging.conftest import made_once
from tests.packaging.site import Page

READ = ["docs", "fastapi_oidc", "generated_vmm", "zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md"]


def built(folder: Path) -> subprocess.CompletedProcess[str]:
    """The site's strict build in `folder`, which has what the generator reads."""
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    environment = os.environ | {"NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = made_once(tmp_path_factory, "site", build_site)
    return {path: Page(path) for path in (folder / "build/site").rglob("[!4]*.html")}


def build_site(folder: Path) -> None:
    for name in READ:
        path = REPOSITORY / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / name)
    result = built(folder)
    assert result.returncode == 0, result.stdout + result.stderr


def home(pages: dict[Path, Page]) -> Path:
    return next(path for path in pages if path.parent.name == "site" and path.name == "index.html")


def test_every_page_is_within_two_clicks_of_the_first(pages: dict[Path, Page]) -> None:
    reached = {home(pages)}
    for _ in range(2):
        reached |= {path for page in reached & set(pages) for path in pages[page].neighbours()}
    assert set(pages) <= reached


def test_no_link_of_the_built_site_is_broken(pages: dict[Path, Page]) -> None:
    broken = []
    for page in pages.values():
        for path, anchor in filter(None, map(page.target, page.links)):
            known = pages[path].ids if path in pages else set()
            if not path.exists() or (anchor and anchor not in known):
                broken.append(f"{page.path.name}: {path.name}#{anchor}")
    assert broken == []


def test_no_page_asks_another_host_for_anything(pages: dict[Path, Page]) -> None:
    hosts = {urlsplit(address).netloc for page in pages.values() for address in page.fetched}
    assert hosts == {""}


def test_the_reference_has_every_public_name(pages: dict[Path, Page]) -> None:
    public: list[Any] = [fastapi_oidc, fastapi_oidc.testing, generated_vmm]
    public += [generated_vmm.process, generated_vmm.testing]
    names = {name for package in public for name in package.__all__}
    reference = [page for path, page in pages.items() if path.parent.name == "reference"]
    documented = {anchor.rpartition(".")[2] for page in reference for anchor in page.ids}
    assert sorted(names - documented) == []


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "zensical.toml", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[one](nowhere.md) and [one](errors.md#nowhere)\n")
    (tmp_path / "docs/errors.md").write_text("# Errors\n")
    result = built(tmp_path)
    assert result.returncode != 0
    assert "page does not exist" in result.stdout + result.stderr
    assert "anchor does not exist" in result.stdout + result.stderr
