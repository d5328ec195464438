"""What type checkers say of the keywords of every shape of field. Checked, never run.

`shapes` is generated from a description that has every shape there is, `unlike_any_release`. A
wrong keyword has an ignore with the code that mypy gives it, which is an error when unused.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from shapes.models import (
    BootSource,
    BootSourceFields,
    Empty,
    EmptyFields,
    Thing,
    ThingByName,
    ThingByNameValue,
    ThingFields,
    ThingInner,
    ThingNotesItem,
    ThingPartsItem,
    ThingPartsItemFields,
)

from generated_vmm.input_types import Json


class Words(TypedDict):
    text: str


def put(**fields: Unpack[ThingFields]) -> None: ...
def boot(**fields: Unpack[BootSourceFields]) -> None: ...


def lists_of_text(sequence: Sequence[str], both: list[str] | tuple[str, ...]) -> None:
    put(needed="a", names=["a"])
    put(needed=None, names=("a", "b"))
    put(needed="a", names=sequence)
    put(needed="a", names=both)
    put(needed="a", names=[])
    put(needed="a", names="a")  # type: ignore[arg-type]
    put(needed="a", names=b"a")  # type: ignore[arg-type]
    put(needed="a", names=[1])  # type: ignore[list-item]
    put(needed="a", names={"a"})  # type: ignore[arg-type]
    put(needed="a", names=None)  # type: ignore[arg-type]
    put(needed="a")  # type: ignore[call-arg]


def lists_of_values() -> None:
    put(needed="a", names=[], modes=["a b", "2M"])
    put(needed="a", names=[], modes=("None",))
    put(needed="a", names=[], modes=["3M"])  # type: ignore[list-item]
    put(needed="a", names=[], grid=[[1], (2, 3)])
    put(needed="a", names=[], grid=([1], [2]))
    put(needed="a", names=[], grid=[["a"]])  # type: ignore[list-item]
    put(needed="a", names=[], grid=[1])  # type: ignore[list-item]


def lists_of_models(
    models: Sequence[ThingPartsItem],
    fields: Sequence[ThingPartsItemFields],
    mixed: list[ThingPartsItem | ThingPartsItemFields],
    untyped: list[dict[str, int]],
) -> None:
    put(needed="a", names=[], parts=[{"id": "a"}])
    put(needed="a", names=[], parts=({"id": "a"}, ThingPartsItem(id="b")))
    put(needed="a", names=[], parts=[ThingPartsItem(id="a"), {"id": "b"}])
    put(needed="a", names=[], parts=models)
    put(needed="a", names=[], parts=fields)
    put(needed="a", names=[], parts=mixed)
    put(needed="a", names=[], parts=[{"idd": "a"}])  # type: ignore[list-item]
    put(needed="a", names=[], parts=[{"id": 1}])  # type: ignore[list-item]
    put(needed="a", names=[], parts={"id": "a"})  # type: ignore[arg-type]
    put(needed="a", names=[], parts=untyped)  # type: ignore[arg-type]
    put(needed="a", names=[], parts="a")  # type: ignore[arg-type]


def models(thing: Thing) -> None:
    put(needed="a", names=[], inner={"deep": {"x": 1}})
    put(needed="a", names=[], inner=ThingInner())
    put(needed="a", names=[], inner={"depe": {}})  # type: ignore[arg-type]
    put(needed="a", names=[], inner=thing)  # type: ignore[arg-type]
    put(needed="a", names=[], absent=Empty())
    put(needed="a", names=[], absent={})
    put(needed="a", names=[], absent=EmptyFields())
    put(needed="a", names=[], absent={"a": 1})  # type: ignore[arg-type]


def maps(
    counts: Mapping[str, int],
    plain: dict[str, int],
    typed: Mapping[str, ThingByNameValue],
    wrong: Mapping[str, str],
) -> None:
    put(needed="a", names=[], counts={"a": 1})
    put(needed="a", names=[], counts=counts)
    put(needed="a", names=[], counts=plain)
    put(needed="a", names=[], counts={"a": "b"})  # type: ignore[dict-item]
    put(needed="a", names=[], counts=wrong)  # type: ignore[arg-type]
    put(needed="a", names=[], counts=[1])  # type: ignore[arg-type]
    put(needed="a", names=[], by_name={"a": {"id": "x"}})
    put(needed="a", names=[], by_name={"a": ThingByNameValue(id="x")})
    put(needed="a", names=[], by_name=ThingByName({"a": ThingByNameValue(id="x")}))
    put(needed="a", names=[], by_name=typed)
    put(needed="a", names=[], by_name={"a": {"idd": "x"}})  # type: ignore[dict-item]
    put(needed="a", names=[], lists={"a": ["b"], "c": ("d",)})
    put(needed="a", names=[], lists={"a": "b"})  # type: ignore[dict-item]


def free_form(
    mapping: Mapping[str, str], nested: dict[str, list[dict[str, int]]], words: Words, any: Json
) -> None:
    put(needed="a", names=[], notes=[{"a": [1, {"b": None}]}, mapping, nested])
    put(needed="a", names=[], notes=({"a": ("b", 0.5)},))
    put(needed="a", names=[], notes=[ThingNotesItem({"a": 1}), {"a": any}])
    put(needed="a", names=[], inner={"deep": mapping})
    put(needed="a", names=[], inner={"deep": nested})
    put(needed="a", names=[], notes=[{"a": {1}}])  # type: ignore[dict-item]
    put(needed="a", names=[], notes=[{"a": b"b"}])  # type: ignore[dict-item]
    put(needed="a", names=[], notes=[{1: "b"}])  # type: ignore[dict-item]
    put(needed="a", names=[], notes=[1])  # type: ignore[list-item]


def scalars(number: float) -> None:
    put(needed="a", names=[], kebab_case=1, share=0.5, class_="a", type="b", when="now", copy="c")
    put(needed="a", names=[], share=1, huge=2**64, code=None)
    put(needed="a", names=[], kebab_case=0.5)  # type: ignore[arg-type]
    put(needed="a", names=[], share="1")  # type: ignore[arg-type]
    put(needed=1, names=[])  # type: ignore[arg-type]
    put(needed="a", names=[], nope=1)  # type: ignore[call-arg]


def paths(path: Path, other: PathLike[str], octets: PathLike[bytes]) -> None:
    boot(kernel_image_path="/k")
    boot(kernel_image_path=path, initrd_path=other)
    boot(kernel_image_path=b"/k")  # type: ignore[arg-type]
    boot(kernel_image_path=octets)  # type: ignore[arg-type]
    boot(kernel_image_path=None)  # type: ignore[arg-type]
    boot(kernel_image_path="/k", boot_args=path)  # type: ignore[arg-type]


def constructors(path: Path, parts: Sequence[ThingPartsItemFields]) -> Thing:
    BootSource(kernel_image_path=path)
    BootSource(kernel_image_path=path).initrd_path = "/i"
    BootSource()  # type: ignore[call-arg]
    BootSource(kernel_image_path=b"/k")  # type: ignore[arg-type]
    BootSource(kernel_image_path="/k", initrd=path)  # type: ignore[call-arg]
    Thing(needed="a", names=("b",), parts=parts, counts={"a": 1}, inner={"deep": {}}, type_="a")
    Thing(needed="a", names="b")  # type: ignore[arg-type]
    Thing(needed="a", names=[], parts=[{"idd": "a"}])  # type: ignore[list-item]
    return Thing(needed=None, names=["b"], copy_="c", kebab_case=1)
