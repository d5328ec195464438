"""The documents tell the truth: code runs, tables are complete, links lead somewhere."""

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from pydantic.fields import FieldInfo

import fastapi_oidc
import fastapi_oidc.testing
import generated_vmm
import generated_vmm.process
import generated_vmm.testing
from examples.console.output import PART_BYTES
from fastapi_oidc import Code, EventName, OIDCSettings
from fastapi_oidc.codes import ANSWERS, DOCUMENTATION
from fastapi_oidc.protocol.authorization import MAX_PARAMETER_LENGTH
from fastapi_oidc.protocol.claims import MAX_SUBJECT_LENGTH
from fastapi_oidc.protocol.encoding import MAX_HEADER_LENGTH, MAX_TOKEN_LENGTH
from fastapi_oidc.protocol.jose.keys import MAX_KEYS, MIN_RSA_BITS
from fastapi_oidc.protocol.urls import MAX_URL_LENGTH
from fastapi_oidc.provider.document import UNKNOWN_KEY_INTERVAL
from fastapi_oidc.session.cookies import MAXIMUM_COOKIE_BYTES
from fastapi_oidc.session.redis import DEFAULT_CONNECTIONS
from fastapi_oidc.session.revocations import MOST_LISTED
from fastapi_oidc.web.access_tokens import MAX_CALL_BYTES
from generated_vmm.transport.calls import DEFAULT_MAX_BODY_BYTES
from tests.packaging.built import REPOSITORY
from tests.packaging.conftest import made_once
from tests.packaging.site import Page

PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
OPERATORS_PAGES = [page for page in PAGES if page.parent.name == "providers"]
OPERATORS_PAGES += [REPOSITORY / "docs/deployment.md"]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
RUN_ELSEWHERE = {
    *("docs/testing.md", "docs/vmm/quick-start.md", "docs/vmm/errors.md"),
    *("docs/vmm/machines.md", "docs/vmm/process.md", "docs/vmm/networks.md"),
    *("docs/vmm/guest.md", "docs/vmm/programs.md", "docs/vmm/fastapi.md"),
    *("docs/vmm/sandboxes.md", "docs/workers.md"),
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
        Code(code).link.removeprefix(f"{DOCUMENTATION}#")
        for code in table("docs/errors.md", "Codes")
    ]


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


# The numbers in the documents are those of the code.


PROMISES: Final = [
    ("accepting-tokens", f"once in {UNKNOWN_KEY_INTERVAL} seconds for all requests together"),
    ("mcp", f"A body over {MAX_CALL_BYTES >> 20} MiB"),
    ("console", f"The last {2 * PART_BYTES >> 20} MiB of the guest's output"),
    ("errors", "a response of the provider | 1 MB, 200 levels"),
    ("errors", f"a token | {MAX_TOKEN_LENGTH:,} characters, its header {MAX_HEADER_LENGTH}"),
    ("errors", f"a key set | {MAX_KEYS} keys; RSA keys of {MIN_RSA_BITS} bits or more"),
    (
        "errors",
        "a URL; `sub`; a parameter of a callback | "
        f"{MAX_URL_LENGTH}; {MAX_SUBJECT_LENGTH}; {MAX_PARAMETER_LENGTH} characters",
    ),
    ("logout", f"the last {MOST_LISTED:,} of them"),
    ("scaling", f"opens at most {DEFAULT_CONNECTIONS} connections in each process"),
    ("sessions", f"at most {MAXIMUM_COOKIE_BYTES} bytes"),
    ("vmm/errors", f"`max_body_bytes`, {DEFAULT_MAX_BODY_BYTES} by default"),
]


@pytest.mark.parametrize(("page", "promise"), PROMISES)
def test_a_number_in_the_documents_is_that_of_the_code(page: str, promise: str) -> None:
    assert promise in (REPOSITORY / f"docs/{page}.md").read_text()


# The documentation site: complete, unbroken, and in need of no other host.


READ = ["docs", "fastapi_oidc", "generated_vmm", "zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md"]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = made_once(tmp_path_factory, "site", build_site)
    return {path: Page(path) for path in (folder / "build/site").rglob("[!4]*.html")}


def build_site(folder: Path) -> None:
    for name in READ:
        path = REPOSITORY / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / name)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    environment = os.environ | {"NO_COLOR": "1"}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
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
