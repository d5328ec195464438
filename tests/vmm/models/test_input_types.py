"""What a caller may write for a path, a list and any JSON, and what is sent for it."""

import json
from collections import UserList, deque
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from generated_vmm.input_types import DEEPEST, JsonObject
from generated_vmm.model import ApiDocument, ApiModel
from tests.vmm.described import SCHEMAS
from tests.vmm.models.schemas import SENT, least, model_named

# Every text of the described API that is a path on the host, as far as a release has it.
PATHS = {
    "BootSource.initrd_path", "BootSource.kernel_image_path", "Drive.path_on_host", "Drive.socket",
    "Logger.log_path", "MemoryBackend.backend_path", "Metrics.metrics_path",
    "PartialDrive.path_on_host", "Pmem.path_on_host", "SerialDevice.serial_out_path",
    "SnapshotCreateParams.mem_file_path", "SnapshotCreateParams.snapshot_path",
    "SnapshotLoadParams.mem_file_path", "SnapshotLoadParams.snapshot_path",
    "Vsock.uds_path", "VsockOverride.uds_path",
}  # fmt: skip


class Shelf(ApiModel):
    names: Annotated[list[str], Field(strict=False)]


class Labels(ApiDocument[Annotated[dict[str, str], Field(strict=False)]]):
    pass


class Anything(ApiDocument[JsonObject]):
    pass


@pytest.mark.parametrize("names", [["a"], ("a",), deque(["a"]), UserList(["a"])])
def test_any_sequence_is_a_list(names: Any) -> None:
    assert Shelf(names=names).to_json() == b'{"names":["a"]}'


@pytest.mark.parametrize("names", ["a", b"a", {"a": "b"}, [1], ("a", None), 1])
def test_what_is_no_list_is_refused(names: Any) -> None:
    with pytest.raises(ValidationError, match="names"):
        Shelf(names=names)


def test_a_map_is_made_of_any_mapping() -> None:
    assert Labels.model_validate(MappingProxyType({"a": "b"})).to_json() == b'{"a":"b"}'
    with pytest.raises(ValidationError, match="valid string"):
        Labels.model_validate({"a": 1})


def test_json_is_made_of_mappings_and_sequences_at_any_depth() -> None:
    given = MappingProxyType({"a": ({"b": MappingProxyType({"c": (1, None, "x")})}, True, 0.5)})
    assert Anything.model_validate(given).root == {"a": [{"b": {"c": [1, None, "x"]}}, True, 0.5]}


@pytest.mark.parametrize("value", [b"x", float("nan"), {1}, object(), {1: "x"}, {"a": b"x"}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Anything.model_validate({"a": value})


def test_json_that_contains_itself_is_refused() -> None:
    loop: dict[str, object] = {}
    loop["a"] = loop
    with pytest.raises(ValidationError):
        Anything.model_validate(loop)


def test_json_is_as_deep_as_the_monitor_reads_it() -> None:
    deep: object = "x"
    for _ in range(DEEPEST - 1):
        deep = (deep,)
    assert json.loads(Anything.model_validate({"a": deep}).to_json())


def test_the_paths_of_the_api_are_known() -> None:
    texts = {
        f"{name}.{member}"
        for name in SENT
        for member, described in SCHEMAS[name].get("properties", {}).items()
        if described.get("type") == "string" and "enum" not in described
    }
    assert {place for place in texts if takes_a_path(place)} == PATHS & texts


def takes_a_path(place: str) -> bool:
    name, _, member = place.partition(".")
    try:
        made = model_named(name).model_validate(least(name) | {member: Path("/x")})
    except ValidationError:
        return False
    return bool(json.loads(made.to_json())[member] == "/x")


SIZES = [
    (model, field)
    for model in SENT
    for field in SCHEMAS[model].get("properties", {})
    if field.endswith("_mib")
]


@pytest.mark.parametrize(("model", "field"), SIZES)
def test_a_size_in_bytes_is_told_that_the_unit_is_mib(model: str, field: str) -> None:
    values = least(model)
    kind = model_named(model)
    for fits in (512, 64 * 1024 * 1024):
        kind.model_validate({**values, field: fits})
    with pytest.raises(
        ValidationError, match=rf"{field}\n.*the unit is MiB: 536870912 MiB are 512 T"
    ):
        kind.model_validate({**values, field: 512 * 1024 * 1024})
    answered = kind.from_answer(json.dumps({**values, field: 512 * 1024 * 1024}).encode())
    assert getattr(answered, field) == 512 * 1024 * 1024
