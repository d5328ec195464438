"""The words that people search for are on a page."""

from __future__ import annotations

import pytest

from tests.packaging.built import REPOSITORY

TEXT = " ".join(
    " ".join(page.read_text().lower().split()) for page in (REPOSITORY / "docs").rglob("*.md")
)


@pytest.mark.parametrize(
    "words",
    [
        "multiple workers",
        "permission denied",
        "operation not permitted",
        "subdomain",
        "OIDC_REDIRECT_URI",
        "redirect_uri_mismatch",
        "background job",
        "celery",
        "gunicorn",
        "root_path",
        "resource server",
        "failed to fetch",
    ],
)
def test_the_documentation_has_what_people_search_for(words: str) -> None:
    assert words.lower() in TEXT
