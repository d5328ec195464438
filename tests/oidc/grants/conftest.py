"""Worlds whose application calls an API."""

from typing import Annotated, Any

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI

from fastapi_oidc import OIDC, Clock, MemoryStore, OIDCSession, require_auth
from tests.oidc.grants.api import Api
from tests.oidc.world import Time, World, make_world

Session = Annotated[OIDCSession[Any], Depends(require_auth)]


def calling(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    """`/call` calls the API within its request, `/later` after its response."""
    app.state.later = []

    @app.get("/call")
    async def call(session: Session, min_validity: int = 60, times: int = 1) -> list[int]:
        auth = oidc.auth(session, min_validity=min_validity)
        return [await app.state.api.status(auth) for _ in range(times)]

    @app.get("/later")
    async def later(session: Session, tasks: BackgroundTasks, min_validity: int = 60) -> None:
        async def work() -> None:
            try:
                status = await app.state.api.status(oidc.auth(session, min_validity=min_validity))
                app.state.later.append(status)
            except Exception as error:
                app.state.later.append(error)

        tasks.add_task(work)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(mode: str, time: Time) -> MemoryStore | None:
    return MemoryStore(clock=Clock(read=time)) if mode == "store" else None


@pytest.fixture
def world(store: MemoryStore | None, time: Time) -> World:
    return calling_world(session_store=store, time=time)


@pytest.fixture
def api(world: World) -> Api:
    api: Api = world.app.state.api
    return api


def calling_world(**options: Any) -> World:
    """A world whose application calls `app.state.api`."""
    world = make_world(mount=calling, **options)
    world.app.state.api = Api(world)
    return world
