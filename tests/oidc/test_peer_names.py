"""The names of other libraries lead to names that exist here, and to the documentation's search."""

import re

import pytest

from fastapi_oidc import OIDCSettings
from fastapi_oidc.peer_names import PEER_NAMES, hint_for
from fastapi_oidc.web.api_options import APIOptions
from tests.packaging.built import REPOSITORY

SETTINGS = OIDCSettings.model_fields


def test_each_name_leads_to_one_that_exists() -> None:
    single = {ours for ours in PEER_NAMES.values() if " " not in ours and "(" not in ours}
    assert single <= {*SETTINGS, *APIOptions.__annotations__, "resolve_identity"}


def test_no_name_of_ours_is_explained_away() -> None:
    assert not PEER_NAMES.keys() & SETTINGS.keys() - {"issuer"}


def test_the_documentation_has_every_name() -> None:
    page = (REPOSITORY / "docs/coming-from.md").read_text()
    section = page.partition("## Names of settings\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^- (.+): (`\w+`(?:, `\w+`)*)$", section, re.MULTILINE)
    found = {
        name.strip("`"): ours.strip("`").lower()
        for ours, names in lines
        for name in names.split(", ")
    }
    assert found == {name: ours.lower() for name, ours in PEER_NAMES.items()}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("isuer", "is issuer meant?"),
        ("ISSUER-URI", "is issuer meant?"),
        ("timeout", "idle_timeout or provider_timeout"),
        ("use_pkce", "PKCE with S256 is always used"),
        ("zzz", None),
    ],
)
def test_a_hint_is_a_question_or_a_sentence(name: str, hint: str | None) -> None:
    assert hint_for(name, SETTINGS) == hint
