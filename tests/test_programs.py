from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from examples.fleet import program
from tests.programs import require_npm_package, require_program
from tools.benchmarks.postgres_server import DEBIAN, postgres_folder


def test_a_server_is_found_where_ordinary_users_have_no_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "SYSTEM_FOLDERS", (str(tmp_path),))
    server = tmp_path / "some-server"
    server.write_text("")
    server.chmod(0o755)
    assert require_program("some-server", package="some-server") == str(server)


@pytest.mark.parametrize("name", ["nginx", "redis-server", "postgresql"])
def test_the_script_that_installs_programs_finds_what_the_tests_find(name: str) -> None:
    """With CI=true it fails for what is missing; it has nothing to install it with here."""
    bash, script = shutil.which("bash") or "", Path(__file__).with_name("programs.sh")
    assert f'PATH="$PATH:{":".join(program.SYSTEM_FOLDERS)}"' in script.read_text()
    found = postgres_folder() if name == "postgresql" else program.path_of(name)
    places = (DEBIAN, *map(Path, program.SYSTEM_FOLDERS))
    shell = {"PATH": "/nowhere", "CI": "true"}
    ended = subprocess.run([bash, script, name], env=shell, capture_output=True, text=True)
    is_there = found is not None and any(Path(found).is_relative_to(place) for place in places)
    assert ended.returncode == 0 or not is_there, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_what_is_missing_skips_or_fails_in_ci_and_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[Exception]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"no-program.*test_programs.*apt-get install -y no-package"):
        require_program("no-program", package="no-package")
    with pytest.raises(outcome, match=r"no-package.*npm ci --prefix tests"):
        require_npm_package("no-package")
