"""Who has not installed the extra `redis` is told what to install."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["", ".session_store", ".revocation_store", ".refresh_lock", ".connections"]
)
def test_what_needs_redis_says_which_extra_has_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "fastapi_oidc.session.redis"
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "redis.asyncio", raising=False)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(package + module)
    assert str(caught.value) == (
        "stores and locks on Redis need: pip install 'fastapi-oidc-vmm[redis]'"
    )
