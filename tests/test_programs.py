from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from examples.fleet import program
from tests.programs import require_npm_package, require_program
from tools.benchmarks.postgres_server import DEBIAN, postgres_folder


def test_a_program_that_is_there_is_found() -> None:
    assert require_program("sh", package="dash").endswith("/sh")


def test_a_server_is_found_where_ordinary_users_have_no_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "SYSTEM_FOLDERS", (str(tmp_path),))
    server = tmp_path / "some-server"
    server.write_text("")
    server.chmod(0o755)
    assert require_program("some-server", package="some-server") == str(server)


@pytest.mark.parametrize("name", ["nginx", "redis-server"])
def test_the_script_that_installs_programs_finds_what_the_tests_find(name: str) -> None:
    """With CI=true it fails for what is missing; it has nothing to install it with here."""
    shell = {"PATH": "/nowhere", "CI": "true"}
    bash, script = shutil.which("bash") or "", str(Path(__file__).with_name("programs.sh"))
    text = Path(script).read_text()
    assert f'PATH="$PATH:{":".join(program.SYSTEM_FOLDERS)}"' in text
    found = program.path_of(name)
    ended = subprocess.run([bash, script, name], env=shell, capture_output=True, text=True)
    in_system = found is not None and str(Path(found).parent) in program.SYSTEM_FOLDERS
    assert ended.returncode == 0 or not in_system, ended.stdout + ended.stderr


def test_the_script_finds_postgresql_where_the_tests_find_it() -> None:
    shell = {"PATH": "/nowhere", "CI": "true"}
    bash, script = shutil.which("bash") or "", str(Path(__file__).with_name("programs.sh"))
    found = postgres_folder()
    ended = subprocess.run([bash, script, "postgresql"], env=shell, capture_output=True, text=True)
    outside_paths = found is not None and found.is_relative_to(DEBIAN)
    assert ended.returncode == 0 or not outside_paths, ended.stdout + ended.stderr


def test_a_missing_program_skips_and_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no-such-program.*test_programs.*apt-get"):
        require_program("no-such-program", package="no-such-package")


def test_a_missing_program_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"apt-get install -y no-such-package"):
        require_program("no-such-program", package="no-such-package")


def test_a_missing_npm_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"no-such-package.*npm ci --prefix tests"):
        require_npm_package("no-such-package")
