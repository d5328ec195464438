"""Who has not installed the extra `redis` or `sql` is told what to install."""

from __future__ import annotations

import importlib
import subprocess
import sys
from itertools import product

import pytest

ON_REDIS = ["", ".session_store", ".revocation_store", ".store", ".connections"]
ON_SQL = product(["", ".store"], ["sqlalchemy", "greenlet"])
NEEDS = [
    *(("redis", module, "redis", "a store on Redis needs") for module in ON_REDIS),
    *(("sql", *each, "the store on SQL needs") for each in ON_SQL),
]


@pytest.mark.parametrize(("extra", "module", "missing", "what"), NEEDS)
def test_what_needs_an_extra_says_which(
    extra: str, module: str, missing: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"fastapi_oidc.session.{extra}"
    for name in [name for name in sys.modules if name.startswith((package, "redis.asyncio"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(package + module)
    assert str(caught.value) == f"{what}: pip install 'fastapi-oidc-vmm[{extra}]'"


def test_without_the_store_sqlalchemy_is_not_imported() -> None:
    program = "import fastapi_oidc, sys; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
