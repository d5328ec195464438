"""The providers' pages: of one form, with settings that are accepted and roles that are found."""

import os
import re
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError, IdentityContext, OIDCSettings
from tests.packaging.built import REPOSITORY
from tests.packaging.pages import blocks

FOLDER = REPOSITORY / "docs" / "providers"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")
SECTIONS = ["Register", "Settings", "Roles", "Logout", "Quirks"]
INLINE = re.compile(r"`(OIDC_[A-Z_]+=[^`\n]+)`")
SAME_EVERYWHERE = {
    "OIDC_BASE_URL": "https://app.example.com",
    "OIDC_COOKIE_SECRET": secrets.token_urlsafe(32),
}
OPERATIONS = ["operations"]


def settings_of(page: Path) -> dict[str, str]:
    """The variables of a page's shell blocks, read as a shell reads them."""
    lines = shlex.split("\n".join(blocks(page.read_text(), "sh")))
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OIDC_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_the_same_sections(page: Path) -> None:
    assert re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE) == SECTIONS


def test_the_overview_lists_every_page() -> None:
    listed = re.findall(r"^\| \[.*?\]\((.*?)\) ", (FOLDER / "index.md").read_text(), re.MULTILINE)
    assert listed == [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_settings_of_a_page_are_accepted(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pasted = settings_of(page)
    for name, value in (SAME_EVERYWHERE | pasted).items():
        monkeypatch.setenv(name, value)
    settings = OIDCSettings()
    assert {name.removeprefix("OIDC_").lower() for name in pasted} <= settings.model_fields_set
    assert settings.issuer == pasted["OIDC_ISSUER"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_setting_that_a_page_mentions_is_accepted(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mentioned in INLINE.findall(page.read_text()):
        [variable] = shlex.split(mentioned)
        name, _, value = variable.partition("=")
        assert name.removeprefix("OIDC_").lower() in OIDCSettings.model_fields
        for known, text in (SAME_EVERYWHERE | settings_of(page) | {name: value}).items():
            monkeypatch.setenv(known, text)
        OIDCSettings()


@pytest.mark.parametrize("page", ["providers/index.md", "deployment.md"])
def test_nobody_can_paste_a_cookie_secret(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pasted = settings_of(FOLDER / "keycloak.md") | settings_of(REPOSITORY / "docs" / page)
    for name, value in pasted.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as refused:
        OIDCSettings()
    assert refused.value.code is Code.CONFIGURATION_SECRET_TOO_SHORT
    monkeypatch.setenv("OIDC_COOKIE_SECRET", SAME_EVERYWHERE["OIDC_COOKIE_SECRET"])
    assert OIDCSettings().base_url == pasted["OIDC_BASE_URL"]


@pytest.mark.parametrize(
    ("provider", "id_token", "user_info", "field"),
    [
        ("amazon-cognito", {"cognito:groups": OPERATIONS}, None, "groups"),
        ("auth0", {"https://app.example.com/roles": OPERATIONS}, None, "roles"),
        ("authentik", {}, {"groups": OPERATIONS}, "groups"),
        ("dex", {"groups": OPERATIONS}, None, "groups"),
        ("gitlab", {"groups_direct": []}, {"groups": OPERATIONS}, "groups"),
        ("keycloak", {"realm_access": {"roles": OPERATIONS}}, None, "roles"),
        ("microsoft-entra", {"oid": "1", "roles": OPERATIONS}, None, "roles"),
        ("okta", {}, {"groups": OPERATIONS}, "groups"),
        ("spring-authorization-server", {"roles": OPERATIONS}, None, "roles"),
        (
            "zitadel",
            {},
            {"urn:zitadel:iam:org:project:roles": {"operations": {"1": "example.com"}}},
            "roles",
        ),
    ],
)
def test_the_roles_of_a_page_are_found(
    provider: str, id_token: Mapping[str, Any], user_info: Mapping[str, Any] | None, field: str
) -> None:
    page = ModuleType(provider)
    source = blocks((FOLDER / f"{provider}.md").read_text())[0]
    exec(compile(source, provider, "exec", dont_inherit=True), page.__dict__)
    context = IdentityContext({"sub": "alice", **id_token}, user_info)
    assert getattr(page.resolve_identity(context), field) == OPERATIONS


def test_a_google_account_of_another_company_is_told_apart() -> None:
    page = ModuleType("google")
    source = blocks((FOLDER / "google.md").read_text())[0].partition("\noidc = ")[0]
    exec(compile(source, "google", "exec", dont_inherit=True), page.__dict__)
    assert page.resolve_identity(IdentityContext({"sub": "alice"}, None)).hd is None
