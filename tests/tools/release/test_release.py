"""What precedes a release: `make audit`, and the lowest versions that pyproject.toml allows."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tools.release.audit import accepted_in, main
from tools.release.lowest import lowest

FOUND = {"id": "GHSA-aaaa-bbbb-cccc", "aliases": ["CVE-2026-1234"], "fixed": "1.1"}
STANDS = {"id": "GHSA-dddd-eeee-ffff", "aliases": ["CVE-2024-23342"]}


class Service(ThreadingHTTPServer):
    """Answers as OSV does: every package of every version has `known`."""

    known: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
        answer = json.dumps({"vulns": [self._described(name, vuln) for vuln in self.server.known]})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def _described(self, name: str, vulnerability: dict[str, Any]) -> dict[str, Any]:
        events = [{"introduced": "0"}, {"fixed": vulnerability.get("fixed", "99")}]
        ranges = [{"type": "ECOSYSTEM", "events": events}]
        package = {"name": name, "ecosystem": "PyPI"}
        affected = [{"package": package, "ranges": ranges}]
        return {**vulnerability, "summary": "It breaks.", "affected": affected}

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(("127.0.0.1", 0), Handler) as server:
        server.known = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    path = tmp_path / "constraints.txt"
    path.write_text("thing==1.0\n")
    return path


def audited(service: Service, requirements: Path) -> int:
    return main([f"--osv-url=http://127.0.0.1:{service.server_port}/"], requirements)


def test_no_finding_passes(
    service: Service, requirements: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audited(service, requirements) == 0
    assert "0 known vulnerabilities in constraints.txt" in capsys.readouterr().out


def test_a_finding_fails_and_is_named(
    service: Service, requirements: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.known = [FOUND]
    assert audited(service, requirements) == 1
    assert "thing 1.0: CVE-2026-1234 GHSA-aaaa-bbbb-cccc, fixed in 1.1" in capsys.readouterr().out


def test_a_finding_that_stands_in_the_security_policy_passes(
    service: Service, requirements: Path
) -> None:
    service.known = [STANDS]
    assert audited(service, requirements) == 0


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
