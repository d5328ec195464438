"""Models and keyword types are bodies of a FastAPI endpoint, whose values the client takes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

import generated_vmm
from generated_vmm import BootSourceFields, DriveFields
from tests.vmm.models.schemas import SENT, least

FIELDS = [f"{name}Fields" for name in SENT if f"{name}Fields" in generated_vmm.__all__]


async def echoed(body_type: object, body: object) -> httpx.Response:
    """The answer of an endpoint that returns its body as FastAPI has read it."""

    async def endpoint(body: Any) -> Any:
        return body

    endpoint.__annotations__["body"] = body_type
    app = FastAPI()
    app.post("/")(endpoint)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.post("/", json=body)


@pytest.mark.parametrize("name", FIELDS)
async def test_keyword_types_are_bodies(name: str) -> None:
    fields = getattr(generated_vmm, name)
    body = least(name.removesuffix("Fields"))
    answer = await echoed(fields, body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {key: body[key] for key in body if key in fields.__annotations__}


async def test_a_body_of_the_wrong_type_is_refused() -> None:
    for body in ({"kernel_image_path": 1}, {}):
        assert (await echoed(BootSourceFields, body)).status_code == 422


async def test_nested_models_arrive_as_they_were_sent() -> None:
    limiter = {"ops": {"size": 1, "refill_time": 2}}
    body = {"is_root_device": False, "path_on_host": "/d", "rate_limiter": limiter}
    assert (await echoed(DriveFields, body)).json() == body
