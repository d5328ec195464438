"""The documentation site: complete, unbroken, and in need of no other host."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import BaseModel

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


def entry(html: str, name: str) -> str:
    """What the reference says of a name, up to the next one of its rank."""
    rank, rest = re.findall(rf'<h(\d) id="{re.escape(name)}"(.*)', html, re.DOTALL)[0]
    return re.split(rf"<h[2-{rank}] ", rest)[0]


def parameters_of(kind: type) -> list[str]:
    """What its constructor takes by name."""
    if issubclass(kind, BaseModel):
        return list(kind.model_fields)
    if issubclass(kind, Enum):
        return []
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]


def reference(pages: dict[Path, Page]) -> str:
    """Every page of the reference."""
    return "".join(path.read_text() for path in sorted(pages) if path.parent.name == "reference")


def test_the_reference_shows_every_constructor(pages: dict[Path, Page]) -> None:
    html = reference(pages)
    packages: list[Any] = [fastapi_oidc, fastapi_oidc.testing]
    public = {
        f"{each.__name__}.{name}": getattr(each, name) for each in packages for name in each.__all__
    }
    classes = {name: kind for name, kind in public.items() if inspect.isclass(kind)}
    missing = [
        f"{name}.{parameter}"
        for name, kind in classes.items()
        for parameter in parameters_of(kind)
        if parameter not in entry(html, name)
    ]
    assert len(classes) > 30
    assert missing == []


def test_the_reference_begins_with_the_central_class_and_shows_sources(
    pages: dict[Path, Page],
) -> None:
    html = next(path for path in pages if path.name == "oidc.html").read_text()
    first = re.findall(r'<h2 id="([^"]+)"', html)[:2]
    assert first == ["fastapi_oidc.OIDC", "fastapi_oidc.OIDCMiddleware"]
    shown = {
        "fastapi_oidc.OIDC": "fastapi_oidc/oidc.py",
        "fastapi_oidc.OIDCSession": "fastapi_oidc/session/model.py",
        "generated_vmm.VmmClient": "generated_vmm/facade/_sync/client.py",
        "generated_vmm.process.Monitor": "generated_vmm/process",
    }
    for name, file in shown.items():
        assert file in entry(reference(pages), name)


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "zensical.toml", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[one](nowhere.md) and [one](errors.md#nowhere)\n")
    (tmp_path / "docs/errors.md").write_text("# Errors\n")
    result = built(tmp_path)
    assert result.returncode != 0
    assert "page does not exist" in result.stdout + result.stderr
    assert "anchor does not exist" in result.stdout + result.stderr
