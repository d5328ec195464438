"""A model that the monitor lacks says which monitor has it, whatever is done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from pydantic import TypeAdapter

from generated_vmm.errors import VmmError
from generated_vmm.unsupported import PartlySupported, Unsupported, unsupported


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
