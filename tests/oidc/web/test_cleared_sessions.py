"""A session that a request clears is over everywhere, whoever clears it and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.responses import StreamingResponse

from fastapi_oidc import OIDC, Clock, MemoryStore
from tests.oidc.interleaving import another_process, same_browser
from tests.oidc.suspensions import others_have_ended
from tests.oidc.world import Time, make_world


def clearing_late(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    """In a thread, when the answer has begun."""

    @app.get("/in-the-background")
    def in_the_background(request: Request, tasks: BackgroundTasks) -> None:
        tasks.add_task(lambda: oidc.clear_session(request))

    @app.get("/in-a-stream")
    def in_a_stream(request: Request) -> StreamingResponse:
        def parts() -> Iterator[bytes]:
            yield b"before"
            oidc.clear_session(request)

        return StreamingResponse(parts())


@pytest.mark.parametrize("path", ["/in-the-background", "/in-a-stream"])
async def test_a_session_that_a_thread_clears_after_the_answer_had_begun_is_over_elsewhere(
    path: str,
) -> None:
    time = Time()
    shared: dict[str, Any] = {
        "session_store": MemoryStore(clock=Clock(read=time)),
        "back_channel_logout_store": None,
    }
    world = make_world(mount=clearing_late, time=time, **shared)
    browser = await world.signed_in()
    assert (await browser.get(path)).status_code == 200
    await others_have_ended()
    elsewhere = same_browser(browser, another_process(world, **shared))
    assert (await elsewhere.get("/me")).status_code == 401
