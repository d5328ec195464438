"""Constructs of OpenAPI that no release has used and other monitors do."""

from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from codegen.document import Node, Unusable
from codegen.import_spec import facts_of_description
from tests.vmm.codegen.conftest import Generated
from tests.vmm.codegen.releases import unlike_any_release

PART = b'{"id":"a","size":1,"step":2,"tags":["x"]}'


with_them = pytest.mark.parametrize("generated", ["unlike_any_release"], indirect=True)


@pytest.fixture
def operations(generated: Generated) -> ModuleType:
    return generated.module("operations")


@pytest.fixture
def models(generated: Generated) -> ModuleType:
    return generated.module("models")


@with_them
def test_parameters_of_a_path_are_those_of_its_calls(operations: ModuleType) -> None:
    assert operations.get_part("a b").path == "/api/v1/parts/a%20b"


@with_them
def test_what_stands_behind_the_path_is_a_keyword_and_left_out_when_it_is_none(
    operations: ModuleType, models: ModuleType
) -> None:
    asked = operations.get_part("a", page_size=3, deep=True, order="up")
    assert asked.path == "/api/v1/parts/a?page-size=3&deep=true&order=up"
    part = models.Part(id="a", size=1)
    assert operations.put_part("a", part, force=False).path == "/api/v1/parts/a?force=false"


@with_them
def test_an_object_made_of_several_has_the_members_of_all(models: ModuleType) -> None:
    part = models.Part.from_answer(PART)
    assert (part.id, part.size, part.step, part.tags) == ("a", 1, 2, ["x"])
    with pytest.raises(ValidationError, match="size"):
        models.Part(id="a")


@with_them
def test_a_whole_number_is_one_of_those_described(models: ModuleType) -> None:
    with pytest.raises(ValidationError, match="1, 2 or 4"):
        models.Part(id="a", size=1, step=3)
    found = models.Part.from_answer(PART.replace(b"2", b"8"))
    assert (found.step, found.model_dump()["step"]) == (8, 8)


@with_them
def test_elements_have_to_be_there_once(models: ModuleType) -> None:
    with pytest.raises(ValidationError, match="the list has an element twice"):
        models.Part(id="a", size=1, tags=["x", "y", "x"])
    assert models.Part(id="a", size=1, tags=("x", "y")).tags == ["x", "y"]


@with_them
def test_a_list_is_read_from_an_answer(operations: ModuleType) -> None:
    parts = operations.list_parts().read(b"[" + PART + b',{"id":"b","size":2,"new":1}]')
    assert [(part.id, part.size) for part in parts] == [("a", 1), ("b", 2)]
    assert operations.list_names().read(b'["a","b"]') == ["a", "b"]
    with pytest.raises(ValidationError):
        operations.list_names().read(b'{"names":[]}')


def schema(found: dict[str, Any]) -> dict[str, Any]:
    document = unlike_any_release()
    document["components"]["schemas"]["Odd"] = found
    return document


ALL_OF = "#/components/schemas/Odd/allOf"
REFUSED = {
    "a text among objects": (
        {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "string"}]},
        f"{ALL_OF}/1: only objects with described members",
    ),
    "a field described in two ways": (
        {
            "allOf": [
                {"$ref": "#/components/schemas/Base"},
                {"type": "object", "properties": {"id": {"type": "integer"}}},
            ]
        },
        f"{ALL_OF}/1: 'id' is described in two ways",
    ),
}


@pytest.mark.parametrize(("found", "reason"), REFUSED.values(), ids=REFUSED)
def test_schemas_that_are_no_one_object_are_refused(found: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        facts_of_description(Node(schema(found)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": {"type": "object"}}, "a query parameter has to be a plain value"),
        ({"schema": {"type": "integer", "minimum": 1}}, "a query parameter has to be a plain"),
        ({"name": "id", "in": "query"}, "another parameter would get the same name as 'id'"),
        ({"name": "a b"}, "'a b' cannot become a name in Python"),
    ],
)
def test_a_parameter_that_cannot_be_an_argument_is_refused(
    change: dict[str, Any], reason: str
) -> None:
    document = unlike_any_release()
    document["paths"]["/parts/{id}"]["get"]["parameters"][0] |= change
    with pytest.raises(Unusable, match=reason):
        facts_of_description(Node(document))
