"""Tokens do not stay in memory until the garbage collector comes by."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, OIDCSession, require_auth
from tests.oidc.world import make_world

seen: list[weakref.ref[OIDCSession[Any]]] = []


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/seen")
    async def see(session: Annotated[OIDCSession[Any], Depends(require_auth)]) -> None:
        seen.append(weakref.ref(session))


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collector")
async def test_a_session_is_freed_with_its_request() -> None:
    browser = await make_world(mount=mount).signed_in()
    assert (await browser.get("/seen")).status_code == 200
    assert seen.pop()() is None
