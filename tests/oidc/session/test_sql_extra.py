"""Who has not installed the extra `sql` is told what to install."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize("missing", ["sqlalchemy", "greenlet"])
@pytest.mark.parametrize("module", ["", ".session_store", ".tables"])
def test_what_needs_sql_says_which_extra_has_it(
    missing: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "fastapi_oidc.session.sql"
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(package + module)
    assert str(caught.value) == (
        "the session store on SQL needs: pip install 'fastapi-oidc-vmm[sql]'"
    )


def test_without_the_store_sqlalchemy_is_not_imported() -> None:
    program = "import fastapi_oidc, sys; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
