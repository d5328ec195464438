"""What all generated models share, shown on models of a test's own."""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Literal, TypeAlias

import pytest
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from codegen.describe import OWN_NAMES
from generated_vmm.errors import VmmError
from generated_vmm.model import AnsweredAs, ApiDocument, ApiModel, HostPath, no_answer, two_files
from generated_vmm.unsupported import PartlySupported, Unsupported, unsupported

Colour: TypeAlias = Annotated[Literal["red", "green"], AnsweredAs(str)]


class Lamp(ApiModel):
    watts: Annotated[int, Field(ge=1, le=60), AnsweredAs(int)]
    colour: Colour | None = None
    on_off: bool | None = Field(
        default=None, validation_alias="on-off", serialization_alias="on-off"
    )


class Notes(ApiDocument[dict[str, JsonValue]]):
    pass


class Kernel(ApiModel):
    path: HostPath
    initrd: HostPath | None = None


def test_only_what_was_set_is_sent_under_the_monitors_names() -> None:
    assert Lamp(watts=5, on_off=True).to_json() == b'{"watts":5,"on-off":true}'
    assert Lamp(watts=5, colour=None).to_json() == b'{"watts":5}'


def test_a_field_is_checked_when_it_is_assigned() -> None:
    lamp = Lamp(watts=5)
    with pytest.raises(ValidationError):
        lamp.watts = 61
    lamp.watts = 60
    assert lamp.to_json() == b'{"watts":60}'


def test_a_field_can_be_given_by_either_name() -> None:
    by_alias = Lamp.model_validate({"watts": 5, "on-off": True})
    assert by_alias == Lamp.model_validate({"watts": 5, "on_off": True})


def test_a_schema_shows_what_may_be_sent() -> None:
    members = Lamp.model_json_schema()["properties"]
    assert (members["watts"]["minimum"], members["watts"]["maximum"]) == (1, 60)
    assert members["colour"]["anyOf"][0]["enum"] == ["red", "green"]


def test_null_is_a_value_in_free_form_json() -> None:
    assert Notes({"a": None, "b": {"c": None}}).to_json() == b'{"a":null,"b":{"c":null}}'
    assert Notes.from_answer(b'{"a": null}').root == {"a": None}


@pytest.mark.parametrize("path", [Path("/vm/k"), PurePosixPath("/vm/k"), "/vm/k"])
def test_a_path_of_the_host_is_text_or_a_path_and_sent_as_text(
    path: str | os.PathLike[str],
) -> None:
    kernel = Kernel.model_validate({"path": path, "initrd": path})
    assert kernel.to_json() == b'{"path":"/vm/k","initrd":"/vm/k"}'
    assert kernel.path == "/vm/k"
    assert kernel.model_copy() == kernel


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"/vm/k"


@pytest.mark.parametrize("path", [b"/vm/k", BytesPath(), Path, 1, None])
def test_nothing_else_is_a_path_of_the_host(path: object) -> None:
    with pytest.raises(ValidationError, match="path"):
        Kernel.model_validate({"path": path})


def test_a_path_of_the_host_is_text_in_answers_and_schemas() -> None:
    assert Kernel.from_answer(b'{"path": "/vm/k", "initrd": null}').path == "/vm/k"
    assert Kernel.model_json_schema()["properties"]["path"] == {"title": "Path", "type": "string"}


HALF_A_PAIR = os.fsdecode(b"/vm/\xff")


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: Kernel(path=HALF_A_PAIR), ("path",)),
        (lambda: Kernel.model_validate({"path": Path(HALF_A_PAIR)}), ("path",)),
        (lambda: Notes({"a": [HALF_A_PAIR]}), ("a", "list", 0, "str")),
        (lambda: Notes({"a": {"b": {"\ud800": 1}}}), ("a", "dict", "b", "dict")),
    ],
)
def test_text_that_json_cannot_hold_is_a_validation_error(
    make: Callable[[], object], place: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError, match="unicode") as caught:
        make()
    (fault,) = caught.value.errors()
    assert (fault["type"], fault["loc"][: len(place)]) == ("string_unicode", place)


def test_codegen_knows_the_names_that_a_field_must_not_take() -> None:
    own = {*dir(ApiModel), *PartlySupported.__annotations__}
    names = {name for name in own if not name.startswith("_")}
    assert names - set(dir(BaseModel)) == OWN_NAMES


def test_nothing_is_read_from_an_answer_without_a_body() -> None:
    no_answer(b"")
    no_answer(b"anything")


# A model that the monitor lacks says which monitor has it, whatever is done with it


class Torch(Unsupported):
    since: ClassVar[str | None] = "2.1.0"
    version: ClassVar[str] = "1.0.0"


USES: dict[str, Callable[[], object]] = {
    "making one": lambda: Torch(),
    "making one of a mapping": lambda: Torch.model_validate({"watts": 1}),
    "making one of JSON": lambda: Torch.model_validate_json("{}"),
    "reading an answer": lambda: Torch.from_answer(b"{}"),
    "a field of another type": lambda: TypeAdapter(list[Torch]).validate_python([{}]),
    "sending one": lambda: Torch.model_construct().to_json(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_use_is_an_error_of_the_client(use: Callable[[], object]) -> None:
    with pytest.raises(VmmError) as caught:
        use()
    assert str(caught.value) == "Torch needs monitor 2.1.0 or newer; this client is made for 1.0.0"


def test_without_a_known_version_it_is_a_newer_one() -> None:
    error = unsupported("lamp.set", None, "1.0.0")
    assert str(error) == "lamp.set needs a newer monitor; this client is made for 1.0.0"


class Lantern(PartlySupported):
    watts: int
    later_fields: ClassVar = {"colour": "2.1.0"}
    made_for: ClassVar = "1.0.0"
    colour: ClassVar = None


def test_a_field_of_newer_monitors_is_none_and_refused_when_it_is_given() -> None:
    assert Lantern(watts=1).colour is None
    with pytest.raises(VmmError, match=r"Lantern\.colour needs monitor 2\.1\.0 or newer"):
        Lantern.model_validate({"watts": 1, "colour": "red"})


def test_an_answer_with_a_field_of_newer_monitors_is_read() -> None:
    assert Lantern.from_answer(b'{"watts":1,"colour":"red"}').watts == 1


def test_a_second_file_that_is_the_first_is_refused_and_not_kept() -> None:
    class Snapshot(ApiModel):
        _two_files = two_files("memory", "state")
        memory: HostPath
        state: HostPath

    made = Snapshot(memory="/memory", state="/state")
    with pytest.raises(ValidationError, match="memory and state are both '/memory': they must be"):
        made.state = "/memory"
    with pytest.raises(ValidationError, match="state and memory are both '/state': they must be"):
        made.memory = "/state"
    assert made == Snapshot(memory="/memory", state="/state")
