"""What must not be in the repository."""

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SELF = "tests/packaging/test_repository.py"

REFUSED = {
    "a package registry's host": r"(pypi|npmjs|pythonhosted|crates)\.(org|io|com)",
    "an absolute path of somebody's machine": r"(?<![\w.])/(root|home)/[a-z.]",
    "work that was left for later": r"\b(TO[D]O|FIX[M]E|XX[X])\b",
    "a secret in PEM": r"BEGIN (RSA |EC )?PRIVATE KEY-----\n[A-Za-z0-9+/]{20}",
}


def tracked_texts() -> list[tuple[str, str]]:
    names = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    texts = []
    for name in names:
        path = REPOSITORY / name
        if name and name != SELF and path.is_file():
            try:
                texts.append((name, path.read_text("utf-8")))
            except UnicodeDecodeError:
                continue
    return texts


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    return tracked_texts()


@pytest.mark.parametrize("what", REFUSED)
def test_it_has_no(what: str, texts: list[tuple[str, str]]) -> None:
    pattern = re.compile(REFUSED[what])
    assert [name for name, text in texts if pattern.search(text)] == []
