"""Every shape of description gives a package that has what is described, no more and no less."""

from __future__ import annotations

import inspect
import random
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, JsonValue, RootModel
from pydantic.fields import FieldInfo

from codegen.describe import repaired
from codegen.document import (
    Document,
    Node,
    answer_of,
    body_of,
    operations_of,
    references_in,
    schemas_of,
)
from codegen.import_spec import facts_of_description, import_spec
from codegen.overlay import Action
from codegen.releases import Releases, has, is_older, learn, places_of
from codegen.unsupported import Lacking, add_unsupported, defined, models_used
from generated_vmm.operation import Operation
from generated_vmm.unsupported import Unsupported
from tests.vmm.codegen.conftest import Generated, Workshop
from tests.vmm.codegen.descriptions import PROJECT, published, reference
from tests.vmm.codegen.releases import RELEASES, release

SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool}


def test_the_operations_are_those_described(generated: Generated) -> None:
    module = generated.module("operations")
    described = {
        operation["operationId"]: (method.upper(), path)
        for path, method, operation in operations_of(generated.document)
    }
    made = {}
    for function in _functions(module):
        parameters = inspect.signature(function).parameters
        ids = {name: f"{{{name}}}" for name in parameters if name != "body"}
        required = [name for name in ids if parameters[name].default is inspect.Parameter.empty]
        ids = {name: ids[name] for name in required}
        body = {"body": _Body()} if "body" in parameters else {}
        call: Operation[object] = function(**ids, **body)
        made[call.id] = (call.method, base_free(call.path))
    assert made == described


def base_free(path: str) -> str:
    """The path as it is described: without base path and query, its parameters in braces."""
    path = path.removeprefix("/api/v1").partition("?")[0]
    return path.replace("%7B", "{").replace("%7D", "}")


def test_an_operation_sends_and_answers_what_is_described(generated: Generated) -> None:
    module, models = generated.module("operations"), generated.module("models")
    functions = {_call(function).id: function for function in _functions(module)}
    for _, _, operation in operations_of(generated.document):
        hints = typing.get_type_hints(functions[operation["operationId"]])
        answer = answer_of(operation)
        expected = None if answer is None else _answer(answer, models)
        assert get_args(hints["return"])[0] in (expected, type(expected))
        body = body_of(operation)
        if body is None:
            assert "body" not in hints
        else:
            model = getattr(models, next(references_in(body)))
            required = operation["requestBody"]["required"]
            assert hints["body"] == (model if required else model | None)


def test_the_models_are_the_schemas(generated: Generated) -> None:
    models = generated.module("models")
    described = {
        name
        for name, schema in schemas_of(generated.document).items()
        if schema["type"] == "object"
    }
    assert {name for name in models.__all__ if not name.endswith("Fields")} >= described
    assert {name for name in models.__all__ if _is_model(getattr(models, name))} == described


def test_every_property_is_the_one_described(generated: Generated) -> None:
    models = generated.module("models")
    for name, schema in schemas_of(generated.document).items():
        if schema["type"] != "object":
            assert get_args(getattr(models, name))[0] == Literal[tuple(sorted(schema["enum"]))]
            continue
        model: type[BaseModel] = getattr(models, name)
        assert " ".join((model.__doc__ or "").split()) == schema.get("description", name)
        assert issubclass(model, RootModel) is _is_free_form(schema)
        if issubclass(model, RootModel):
            continue
        fields = {field.serialization_alias or at: field for at, field in _fields(model)}
        assert fields.keys() == schema.get("properties", {}).keys()
        for member, described in schema.get("properties", {}).items():
            required = member in schema.get("required", [])
            _same(fields[member], described, models, required=required)


def test_nothing_in_it_depends_on_the_run(generated: Generated) -> None:
    for path in generated.folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "object at 0x" not in text
        assert str(generated.run.folder) not in text


def _answer(answer: dict[str, Any], models: types.ModuleType) -> Any:
    if "items" in answer:
        return list[_answer(answer["items"], models)]  # type: ignore[misc]  # made, not said
    return _expected(answer, models)


def _is_model(found: object) -> bool:
    return (
        inspect.isclass(found)
        and issubclass(found, BaseModel)
        and not issubclass(found, Unsupported)
    )


def _is_free_form(schema: dict[str, Any]) -> bool:
    return "properties" not in schema and schema.get("additionalProperties") is not False


class _Body:
    """Stands for any model where only the call's own shape is looked at."""

    def to_json(self) -> bytes:
        return b"{}"


def _functions(module: types.ModuleType) -> Iterator[Any]:
    for name, function in vars(module).items():
        own = (
            inspect.isfunction(inspect.unwrap(function)) and function.__module__ == module.__name__
        )
        if own and "Not in monitor" not in (function.__doc__ or ""):
            assert name == function.__name__
            yield function


def _call(function: Any) -> Operation[object]:
    parameters = inspect.signature(function).parameters
    call: Operation[object] = function(
        **{name: _Body() if name == "body" else name for name in parameters}
    )
    return call


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    yield from model.model_fields.items()


def _same(
    field: FieldInfo, described: dict[str, Any], models: types.ModuleType, *, required: bool
) -> None:
    assert field.is_required() is required
    assert field.description == described.get("description")
    assert field.default is None or required
    annotation, limits = _split(field, described)
    assert (type(None) in get_args(annotation)) is not (required and not described.get("nullable"))
    assert _without_none(annotation) == _expected(described, models)
    assert limits == {key: described[key] for key in LIMITS if key in described}


LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}


def _split(field: FieldInfo, described: dict[str, Any]) -> tuple[Any, dict[str, object]]:
    """The annotation, and the limits that stand in it or beside it, under their described names."""
    metadata = list(field.metadata)
    for choice in get_args(field.annotation):
        if get_origin(choice) is Annotated:
            metadata += choice.__metadata__
    flat = [part for found in metadata for part in getattr(found, "metadata", [found])]
    found = {
        name: getattr(part, name)
        for part in flat
        for name in LIMITS.values()
        if getattr(part, name, None) is not None
    }
    names = {LIMITS[key]: key for key in LIMITS if key in described}
    return field.annotation, {names.get(name, name): value for name, value in found.items()}


def _without_none(annotation: Any) -> Any:
    """The annotation without what makes it optional, and without limits, at any depth."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        choices = [choice for choice in get_args(annotation) if choice is not type(None)]
        assert len(choices) == 1
        return _without_none(choices[0])
    if get_origin(annotation) is Annotated:
        return _without_none(annotation.__origin__)
    if get_origin(annotation) is list:
        return list[_without_none(get_args(annotation)[0])]  # type: ignore[misc]  # made, not said
    return annotation


def _expected(described: dict[str, Any], models: types.ModuleType) -> Any:
    """The Python type of a described one."""
    if "enum" in described:
        return Literal[tuple(sorted(described["enum"]))]
    names = [found["$ref"] for found in (described, *described.get("allOf", [])) if "$ref" in found]
    if names:
        return _without_none(getattr(models, names[0].rsplit("/", 1)[1]))
    if described["type"] == "array":
        return list[_expected(described["items"], models)]  # type: ignore[misc]  # made, not said
    return SCALARS.get(described["type"], dict[str, JsonValue])


# What an older monitor lacks has a name that says so, and nothing else does


WRITTEN = "from written._generated import models\nmodels.Other(models.Drive())\n"
MODELS = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .drive import Drive
_MODULES = {
    "Drive": "drive",
}
__all__ = [
    "Drive",
]
"""
SCHEMAS = "$.components.schemas"
ACTIONS = [
    Action(f"{SCHEMAS}.Pmem", {}),
    Action(f"{SCHEMAS}.Pmem.properties.path", {}),
    Action(f"{SCHEMAS}.Pmem.properties.kind", {"x-alias": "PmemKind"}),
    Action(f"{SCHEMAS}.Nested", {}),
    Action(f"{SCHEMAS}.Status", {"x-answered": True}),
    Action(f"{SCHEMAS}.Drive", {}),
    Action("$.paths['/p'].put", {"x-member": "pmem.set"}),
    Action("$.paths['/p']", {"delete": {"x-member": "pmem.delete"}}, "1.16.0"),
]
LACKED = {"Pmem": "1.14.0", "Nested": "1.12.0", "Status": "1.14.0", "PUT /p": "1.14.4, 1.15.1"}
DOCUMENT = {
    "info": {"version": "1.10.1"},
    "paths": {"/d": {"put": {}}},
    "components": {"schemas": {"Drive": {}}},
}


def package_and_written(folder: Path) -> tuple[Path, Path]:
    package, written = folder / "_generated", folder / "written"
    (package / "models").mkdir(parents=True)
    written.mkdir()
    (package / "models" / "__init__.py").write_text(MODELS, "utf-8")
    (written / "facade.py").write_text(WRITTEN, "utf-8")
    return package, written


def test_only_what_is_missing_is_added(tmp_path: Path) -> None:
    package, written = package_and_written(tmp_path)
    lacking, used = Lacking.by(DOCUMENT, LACKED, ACTIONS), models_used(written, "_generated")
    names = ["Nested", "NestedFields", "Other", "Pmem", "PmemFields", "PmemKind", "Status"]
    notes = add_unsupported(package, "1.10.1", used, lacking)
    calls = ["pmem.delete", "pmem.set"]
    assert notes == [f"client: {name} is not in 1.10.1" for name in (*calls, *names)]
    assert lacking.calls == {
        "PUT /p": ("pmem.set", "1.14.4, 1.15.1"),
        "DELETE /p": ("pmem.delete", "1.16.0"),
    }
    assert defined(package / "models" / "__init__.py") >= {"Drive", *names}
    text = (package / "models" / "unsupported.py").read_text("utf-8")
    assert "class Pmem(Unsupported):" in text
    assert "    path: Any\n    kind: Any" in text.partition("class PmemFields(TypedDict")[2]
    assert "class Drive" not in text
    assert add_unsupported(package, "1.10.1", used, lacking) == notes[: len(calls)]


def test_a_monitor_as_new_as_the_written_code_lacks_nothing(workshop: Workshop) -> None:
    for shape in ("swagger", "release_1_17"):
        made = workshop.get(shape)
        assert not [note for note in made.run.notes if note.startswith("client:")]
        assert "unsupported(" not in (made.folder / "_async" / "resources.py").read_text("utf-8")
        assert not (made.folder / "models" / "unsupported.py").exists()


SCRIPT = """
import generated_vmm
from generated_vmm import *
client = generated_vmm.VmmClient("/nowhere")
def said(call):
    try:
        call()
    except generated_vmm.VmmError as error:
        return str(error)
print(generated_vmm.API_VERSION)
print(said(lambda: client.drive("a").delete()))
print(said(lambda: client.pmem("a").set(path_on_host="/a")))
print(said(lambda: client.pmem("a").update({"rate_limiter": None})))
print(said(client.balloon.hinting.start))
print(said(client.hotplug_memory.get))
print(said(lambda: generated_vmm.Pmem(id="a", path_on_host="/a")))
print(CpuidRegisterModifierRegister, VsockOverrideFields.__name__)
print("nobody" if "No such file" in said(client.get_version) else "?")
"""
NEEDS = "{} needs monitor {} or newer; this client is made for 1.7.0"


def test_the_client_works_with_an_older_monitor(workshop: Workshop, tmp_path: Path) -> None:
    package = tmp_path / "generated_vmm"
    shutil.copytree(PROJECT.written, package, ignore=shutil.ignore_patterns("_generated"))
    shutil.copytree(workshop.get("release_1_7").folder, package / "_generated")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "1.7.0",
        NEEDS.format("drive(id).delete", "1.16.0"),
        NEEDS.format("pmem(id).set", "1.14.0"),
        NEEDS.format("pmem(id).update", "1.16.0"),
        NEEDS.format("balloon.hinting.start", "1.14.0"),
        NEEDS.format("hotplug_memory.get", "1.14.0"),
        NEEDS.format("Pmem", "1.14.0"),
        "<class 'str'> VsockOverrideFields",
        "nobody",
    ]


def test_every_name_of_the_client_is_there_for_an_older_monitor(workshop: Workshop) -> None:
    newest = defined(workshop.get("swagger").folder / "models" / "__init__.py")
    assert newest <= defined(workshop.get("release_1_7").folder / "models" / "__init__.py")


# Which release has what is derived from the descriptions of releases, in whatever order


CLOCK = "SnapshotLoadParams.clock_realtime"
ORDERS = {
    "oldest first": RELEASES,
    "newest first": RELEASES[::-1],
    "any": random.Random(1).sample(RELEASES, len(RELEASES)),
}


@pytest.fixture(scope="module")
def described() -> dict[str, Document]:
    """Every release's description, repaired."""
    return {
        version: repaired(facts_of_description(Node(release(version))))[0] for version in RELEASES
    }


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_what_is_learned_is_what_the_releases_describe(
    order: Sequence[str], described: dict[str, Document]
) -> None:
    everywhere = committed = places_of(repaired(reference())[0])
    table = Releases()
    for version in order:
        table = learn(table, described[version], committed)
        committed = places_of(described[version])
    assert table.known == RELEASES
    assert table.since[CLOCK] == ("1.14.4", "-1.15.0", "1.15.1")
    for version, document in described.items():
        lacked = {place for place, since in table.since.items() if not has(since, version)}
        models = {place for place in everywhere - places_of(document) if "." not in place}
        assert {place for place in lacked if "." not in place} == models
        # An older CPU template is any object, which lacks no field.
        lacked = {place for place in lacked if not place.startswith("CpuConfig.")}
        assert table.lacked_by(document).keys() == lacked


def test_the_releases_made_here_are_those_published(described: dict[str, Document]) -> None:
    for path in published():
        version = path.stem.partition("-")[2]
        document, _ = repaired(import_spec(path))
        assert places_of(document) == places_of(described[version])


def test_what_a_newer_release_lacks_is_not_offered(described: dict[str, Document]) -> None:
    table = learn(Releases(("1.0.0",)), described["1.13.0"], {"PUT /gone"})
    assert table.since["PUT /gone"] == ("1.0.0", "-1.13.0")
    assert "PUT /gone" not in table.lacked_by(described["1.7.0"])


@pytest.mark.parametrize(
    ("version", "is_in"),
    [("1.14.3", False), ("1.14.4", True), ("1.14.9", True), ("1.15.0", False), ("1.15.1", True),
     ("1.16.0", True), ("2.0.0", True), ("1.13.9", False)],
)  # fmt: skip
def test_a_release_that_is_not_known_has_what_the_one_before_has(version: str, is_in: bool) -> None:
    assert has(("1.14.4", "-1.15.0", "1.15.1"), version) is is_in


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("1.9.1", "1.16.0", True),
        ("1.16.0", "1.16.0", False),
        ("1.17.0-dev", "1.17.0", False),
        ("2.0.0", "1.16.0", False),
        ("1.16.1", "0", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, than: str, older: bool) -> None:
    assert is_older(version, than) is older
