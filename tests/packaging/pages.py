"""Reads the pages of the documentation, and runs their code."""

import re
import secrets
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from tests.packaging.built import REPOSITORY

DOCS = REPOSITORY / "docs"


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def blocks(text: str, kind: str = "python") -> list[str]:
    """The blocks of one language."""
    found: list[str] = re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found


def run(page: str, monkeypatch: pytest.MonkeyPatch, replaced: Mapping[str, str] = {}) -> ModuleType:
    """The module that the Python blocks of a page make, with other texts in some places."""
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for code in blocks(text_of(page)):
        for old, new in replaced.items():
            code = code.replace(old, new)
        exec(compile(code, page, "exec", dont_inherit=True), module.__dict__)
    return module


def environment(issuer: str, base_url: str, **more: str) -> dict[str, str]:
    """The settings of the application `app`, as variables."""
    return {
        "OIDC_ISSUER": issuer,
        "OIDC_CLIENT_ID": "app",
        "OIDC_COOKIE_SECRET": secrets.token_urlsafe(32),
        "OIDC_BASE_URL": base_url,
        **more,
    }
