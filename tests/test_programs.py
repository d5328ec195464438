from __future__ import annotations

import pytest

from tests.programs import require_npm_package, require_program


def test_a_program_that_is_there_is_found() -> None:
    assert require_program("sh", package="dash").endswith("/sh")


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
