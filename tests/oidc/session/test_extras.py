"""Who has not installed the extra `broker`, `redis` or `sql` is told what to install."""

import importlib
import subprocess
import sys
from itertools import product

import pytest

ON_REDIS = ["", ".store"]
ON_SQL = product(["", ".store"], ["sqlalchemy", "greenlet"])
NEEDS = [
    ("broker", "", "uvicorn", "the broker needs"),
    *(("redis", module, "redis", "a store on Redis needs") for module in ON_REDIS),
    *(("sql", *each, "the store on SQL needs") for each in ON_SQL),
]


@pytest.mark.parametrize(("extra", "module", "missing", "what"), NEEDS)
def test_what_needs_an_extra_says_which(
    extra: str, module: str, missing: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "fastapi_oidc.broker" if extra == "broker" else f"fastapi_oidc.session.{extra}"
    for name in [name for name in sys.modules if name.startswith((package, "redis.asyncio"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(package + module)
    assert str(caught.value) == f"{what}: pip install 'fastapi-oidc-vmm[{extra}]'"


def test_without_what_needs_an_extra_nothing_of_it_is_imported() -> None:
    program = "import fastapi_oidc, sys; print({'redis', 'sqlalchemy', 'uvicorn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
