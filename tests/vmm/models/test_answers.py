"""An answer is read as long as it says what it must, whatever else a newer monitor puts into it."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from codegen.document import Document
from generated_vmm._generated.models import FullVmConfiguration, InstanceInfo
from tests.vmm.described import SCHEMAS
from tests.vmm.models.schemas import ANSWERED, FEW, MANY, least, model_named, resolved, valid


def read(name: str, value: Any) -> Any:
    return model_named(name).from_answer(json.dumps(value).encode())


def everywhere(schema: Document, value: Any, change: Callable[[Document, Any], Any]) -> Any:
    """The value with every part of it changed, from the inside out, each beside its schema."""
    schema = resolved(schema)
    if isinstance(value, list):
        value = [everywhere(schema["items"], element, change) for element in value]
    elif isinstance(value, dict) and "properties" in schema:
        value = {
            name: everywhere(schema["properties"][name], member, change)
            for name, member in value.items()
        }
    return change(schema, value)


@pytest.mark.parametrize("name", ANSWERED)
@given(values=st.data())
@FEW
def test_an_answer_as_described_is_read(name: str, values: st.DataObject) -> None:
    value = values.draw(valid(name))
    dumped = read(name, value).model_dump(by_alias=True, exclude_unset=True)
    assert dumped == value


@pytest.mark.parametrize("name", ANSWERED)
@given(values=st.data())
@FEW
def test_unknown_members_are_ignored(name: str, values: st.DataObject) -> None:
    value = values.draw(valid(name))

    def add(schema: Document, found: Any) -> Any:
        has_members = isinstance(found, dict) and "properties" in schema
        return found | {"not known yet": [1]} if has_members else found

    assert read(name, everywhere(SCHEMAS[name], value, add)) == read(name, value)


UNFORESEEN: dict[str, Callable[[Document, Any], Any]] = {
    "a value of an enum": lambda schema, found: "New" if "enum" in schema and found else found,
    "a number outside the described range": lambda _, found: (
        2**64 - 1 if type(found) is int else found
    ),
}


@pytest.mark.parametrize("change", UNFORESEEN.values(), ids=UNFORESEEN)
@pytest.mark.parametrize("name", ANSWERED)
@given(values=st.data())
@FEW
def test_what_nobody_has_foreseen_is_kept(
    name: str, change: Callable[[Document, Any], Any], values: st.DataObject
) -> None:
    value = everywhere(SCHEMAS[name], values.draw(valid(name)), change)
    assert read(name, value).model_dump(by_alias=True, exclude_unset=True) == value


@pytest.mark.parametrize(
    "name", [name for name in ANSWERED if len(SCHEMAS[name].get("properties", {}))]
)
def test_every_member_that_is_not_required_may_be_null(name: str) -> None:
    schema = SCHEMAS[name]
    optional = set(schema["properties"]) - set(schema.get("required", []))
    value = least(name) | dict.fromkeys(optional)
    assert read(name, value).model_dump(by_alias=True) == value


@pytest.mark.parametrize(
    ("name", "member"),
    [(name, member) for name in ANSWERED for member in SCHEMAS[name].get("required", [])],
)
def test_an_answer_without_a_required_member_is_refused(name: str, member: str) -> None:
    value = least(name)
    read(name, value)
    for wrong in (value | {member: None}, {key: value[key] for key in value if key != member}):
        with pytest.raises(ValidationError, match=member):
            read(name, wrong)


@given(content=st.binary(max_size=40))
@MANY
def test_any_bytes_are_an_answer_or_a_validation_error(content: bytes) -> None:
    with contextlib.suppress(ValidationError):
        InstanceInfo.from_answer(content)


def test_what_was_read_can_be_sent_again_without_its_nulls() -> None:
    answer = b'{"drives": [{"drive_id": "a", "is_root_device": true, "socket": null}]}'
    drives = FullVmConfiguration.from_answer(answer).drives
    assert drives is not None
    assert drives[0].to_json() == b'{"drive_id":"a","is_root_device":true}'
