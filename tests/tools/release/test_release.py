"""What precedes a release: `make audit`, and the lowest versions that pyproject.toml allows."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.oidc.real_op.serving import free_socket, serving
from tools.release.audit import accepted_in, main
from tools.release.lowest import lowest

FOUND = {"id": "GHSA-aaaa-bbbb-cccc", "aliases": ["CVE-2026-1234"], "fixed": "1.1"}
STANDS = {"id": "GHSA-dddd-eeee-ffff", "aliases": ["CVE-2024-23342"]}


@dataclass
class Service:
    """Answers as OSV does: every package of every version has `known`."""

    url: str
    known: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        package = {"name": (await request.json())["package"]["name"], "ecosystem": "PyPI"}
        return JSONResponse({"vulns": [described(package, one) for one in self.known]})


def described(package: dict[str, str], vulnerability: dict[str, Any]) -> dict[str, Any]:
    events = [{"introduced": "0"}, {"fixed": vulnerability.get("fixed", "99")}]
    affected = {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {**vulnerability, "summary": "It breaks.", "affected": [affected]}


@pytest.fixture
def service() -> Iterator[Service]:
    with free_socket() as (listener, origin):
        service = Service(f"{origin}/")
        app = Starlette(routes=[Route("/", service.answer, methods=["POST"])])
        with serving(app, listener):
            yield service


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    path = tmp_path / "constraints.txt"
    path.write_text("thing==1.0\n")
    return path


@pytest.mark.parametrize(
    ("known", "status", "said"),
    [
        ([], 0, "0 known vulnerabilities in constraints.txt"),
        ([FOUND], 1, "thing 1.0: CVE-2026-1234 GHSA-aaaa-bbbb-cccc, fixed in 1.1"),
        ([STANDS], 0, ""),  # in the security policy
    ],
)
def test_a_finding_that_is_not_accepted_fails_and_is_named(
    service: Service,
    requirements: Path,
    capsys: pytest.CaptureFixture[str],
    known: list[dict[str, Any]],
    status: int,
    said: str,
) -> None:
    service.known = known
    assert main([f"--osv-url={service.url}"], requirements) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_without_the_service_it_says_that_nothing_was_audited(
    ci: str,
    status: int,
    requirements: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CI", ci)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # a port at which nobody listens
        port = nobody.getsockname()[1]
        assert main([f"--osv-url=http://127.0.0.1:{port}/"], requirements) == status
    assert "NOT AUDITED: the service cannot be asked." in capsys.readouterr().err


def test_only_that_section_of_the_security_policy_accepts_findings() -> None:
    policy = "CVE-2020-1\n## Accepted findings\n| CVE-2021-2 |\n## More\nCVE-2022-3\n"
    assert accepted_in(policy) == ["CVE-2021-2"]


# The lowest versions that pyproject.toml allows, as constraints


def project(*dependencies: str, **extras: list[str]) -> dict[str, object]:
    return {"dependencies": list(dependencies), "optional-dependencies": extras}


def test_each_dependency_and_extra_is_pinned_to_its_lower_bound() -> None:
    lines = lowest(project("b>=2.1,<3", "a[x]>=1", redis=["c==4", "b>=2.1,<3"]))
    assert list(lines) == ["a==1", "b==2.1", "c==4"]


@pytest.mark.parametrize("dependency", ["a", "a<2", "a>=1,>=2"])
def test_a_dependency_without_one_lower_bound_is_refused(dependency: str) -> None:
    with pytest.raises(ValueError, match="no lower bound"):
        list(lowest(project(dependency)))
