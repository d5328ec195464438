"""The documents tell the truth: code runs, tables are complete, links lead somewhere."""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic.fields import FieldInfo

from fastapi_oidc import Code, EventName, OIDCSettings
from fastapi_oidc.codes import ANSWERS, DOCUMENTATION

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
OPERATORS_PAGES = [page for page in PAGES if page.parent.name == "providers"]
OPERATORS_PAGES += [REPOSITORY / "docs/deployment.md"]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
RUN_ELSEWHERE = {
    "docs/testing.md",
    "docs/vmm/quick-start.md",
    "docs/vmm/errors.md",
    "docs/vmm/machines.md",
    "docs/vmm/process.md",
    "docs/vmm/networks.md",
    "docs/vmm/guest.md",
    "docs/vmm/programs.md",
    "docs/vmm/fastapi.md",
    "docs/vmm/sandboxes.md",
    "docs/workers.md",
}
ENVIRONMENT = {
    "OIDC_ISSUER": "https://op.example.com",
    "OIDC_CLIENT_ID": "app",
    "OIDC_CLIENT_SECRET": secrets.token_urlsafe(32),
    "OIDC_COOKIE_SECRET": secrets.token_urlsafe(32),
    "OIDC_BASE_URL": "https://app.example.com",
}
for prefix in ("OIDC_STAFF_", "OIDC_PARTNERS_"):  # docs/configuration.md, several providers
    ENVIRONMENT |= {
        variable.replace("OIDC_", prefix): value
        for variable, value in ENVIRONMENT.items()
        if variable.removeprefix("OIDC_") in ("ISSUER", "CLIENT_ID", "COOKIE_SECRET", "BASE_URL")
    }
    ENVIRONMENT[f"{prefix}CLIENT_ID"] = prefix.lower()


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def blocks(page: Path) -> list[str]:
    found = BLOCK.findall(page.read_text())
    return [
        "\n".join(line.removeprefix(indent) for line in code.split("\n")) for indent, code in found
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and name(page) not in RUN_ELSEWHERE], ids=name
)
def test_every_python_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for code in blocks(page):
        exec(compile(code, name(page), "exec", dont_inherit=True), module.__dict__)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(FENCED.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in [slug(heading) for heading in headings], anchor


def slug(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def table(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by their first cell."""
    text = (REPOSITORY / page).read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    text = ANCHOR.sub("", text)
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip().strip("`"): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_every_error_code_is_documented_with_its_status() -> None:
    documented = {code: int(cells[0]) for code, cells in table("docs/errors.md", "Codes").items()}
    assert documented == {str(code): int(answer.status) for code, answer in ANSWERS.items()}


def test_every_code_has_an_anchor_to_which_it_links() -> None:
    assert ANCHOR.findall((REPOSITORY / "docs/errors.md").read_text()) == [
        code.link.removeprefix(f"{DOCUMENTATION}#") for code in documented_codes()
    ]


def documented_codes() -> list[Code]:
    return [Code(code) for code in table("docs/errors.md", "Codes")]


def test_every_event_is_documented() -> None:
    assert set(table("docs/events.md", "Events")) == {str(event) for event in EventName}


def test_every_option_is_documented_with_its_default() -> None:
    documented = {
        option: cells[1] for option, cells in table("docs/configuration.md", "Options").items()
    }
    assert documented == {
        option: FOLLOWS.get(option) or default_in_words(field)
        for option, field in OIDCSettings.model_fields.items()
    }


FOLLOWS = {
    "base_url": "required",
    "client_auth_method": "by secret",
    "client_assertion_algorithm": "by key",
    "userinfo_signing_algorithms": "as ID tokens",
}
"""What is said of options that are worked out of others when they are left out."""


def default_in_words(option: FieldInfo) -> str:
    """The cell "Default" of an option."""
    if option.is_required():
        return "required"
    match option.get_default(call_default_factory=True):
        case None | bool() as constant:
            return str(constant).lower()
        case int() | float() as number:
            return format(number, "g")
        case str() as text:
            return f"`{text}`"
        case words:
            return f"`{' '.join(words)}`" if words else "empty"


@pytest.mark.parametrize("page", OPERATORS_PAGES, ids=name)
def test_every_code_and_event_that_an_operator_reads_of_exists(page: Path) -> None:
    known = {str(code) for code in ANSWERS} | {str(event) for event in EventName}
    rooms = {each.partition(".")[0] for each in known}
    named = dict(re.findall(r"`((\w+)\.\w+)`", page.read_text()))
    assert [each for each, room in named.items() if room in rooms - {"provider"}] == [
        each for each in named if each in known
    ]
