"""What a model accepts is what the description says may be sent; so does an endpoint of FastAPI."""

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import generated_vmm
from codegen.document import Document
from generated_vmm import BootSourceFields, DriveFields
from tests.vmm.described import SCHEMAS
from tests.vmm.models.schemas import (
    FEW,
    MANY,
    SENT,
    least,
    model_named,
    nearly_valid,
    resolved,
    valid,
    validator,
)


def accepts(name: str, value: Any) -> bool:
    try:
        model_named(name).model_validate(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", SENT)
@given(values=st.data())
@MANY
def test_model_and_schema_agree_on_what_is_nearly_right(name: str, values: st.DataObject) -> None:
    value = values.draw(nearly_valid(name))
    assert accepts(name, value) is validator(name).is_valid(value)


@pytest.mark.parametrize("name", SENT)
@given(values=st.data())
@FEW
def test_what_is_described_is_accepted_sent_and_read_again(
    name: str, values: st.DataObject
) -> None:
    value = values.draw(valid(name))
    assert validator(name).is_valid(value)
    model = model_named(name)
    made = model.model_validate(value)
    sent = json.loads(made.to_json())
    assert sent == without_nulls(name, value)
    assert validator(name).is_valid(sent)
    assert model.from_answer(made.to_json()) == made
    assert model.model_validate_json(made.to_json()) == made


@pytest.mark.parametrize("name", SENT)
@given(values=st.data())
@FEW
def test_json_is_checked_as_python_values_are(name: str, values: st.DataObject) -> None:
    value = values.draw(nearly_valid(name))
    try:
        model_named(name).model_validate_json(json.dumps(value))
    except ValidationError:
        assert not accepts(name, value)
    else:
        assert accepts(name, value)


def without_nulls(name: str, value: Any) -> Any:
    """A member of a model that is null is not sent; in free-form JSON null is a value."""
    return _without_nulls(SCHEMAS[name], value)


def _without_nulls(schema: Document, value: Any) -> Any:
    schema = resolved(schema)
    if isinstance(value, list):
        return [_without_nulls(schema["items"], element) for element in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    return {
        key: _without_nulls(schema["properties"][key], member)
        for key, member in value.items()
        if member is not None
    }


# Models and keyword types are bodies of a FastAPI endpoint, whose values the client takes


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
