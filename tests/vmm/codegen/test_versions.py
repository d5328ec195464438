"""Every shape of description gives a package that has what is described, no more and no less."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from codegen.describe import repaired
from codegen.document import Document, Node, schemas_of
from codegen.import_spec import facts_of_description, import_spec
from codegen.releases import Releases, has, is_older, learn, places_of
from codegen.unsupported import Lacking, add_unsupported, defined, models_used
from tests.vmm.codegen.conftest import Generated, Workshop
from tests.vmm.codegen.descriptions import PROJECT, published, reference
from tests.vmm.codegen.releases import RELEASES, release

SAYS = (
    *("type", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("pattern", "$ref", "description"),
)
NULL, ANY = {"type": "null"}, {"$ref": "#/components/schemas/JsonValue"}


def test_every_model_says_what_is_described(generated: Generated) -> None:
    models, schemas = generated.module("models"), schemas_of(generated.document)
    for name, described in schemas.items():
        adapter = TypeAdapter[Any](getattr(models, name))
        made = said(adapter.json_schema(ref_template="#/components/schemas/{model}"), schemas)
        expected = said({"description": name, **described}, schemas)
        if "enum" in described:
            made["description"] = expected["description"]
        assert made == expected, name


def said(schema: Document, schemas: Document) -> Document:
    """What a schema says, of a description or of pydantic, in one form: with enums in place."""
    for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        schema = schema if choice == NULL else {**choice, **schema}
    named = schemas.get(schema.get("$ref", "").rpartition("/")[2], {})
    if "enum" in named:
        schema = {**named, "description": "", **schema, "$ref": None}
    found = {key: schema[key] for key in SAYS if schema.get(key) is not None}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and schema[key] != ANY:
            found[key] = said(schema[key], schemas)
    required, members = schema.get("required", ()), schema.get("properties", {})
    may_be_null = {
        name
        for name, inner in members.items()
        if name not in required or inner.get("nullable") or NULL in inner.get("anyOf", ())
    }
    return {
        **found,
        "enum": sorted(schema.get("enum", ())),
        "description": " ".join(schema.get("description", "").split()),
        "required": sorted(required),
        "may be null": sorted(may_be_null),
        "properties": {name: said(inner, schemas) for name, inner in members.items()},
    }


# What an older monitor lacks has a name that says so, and nothing else does


MODELS = """
if TYPE_CHECKING:
    from .drive import Drive
_MODULES = {
}
__all__ = [
]
"""


def test_what_written_code_uses_is_added_once(tmp_path: Path) -> None:
    package, written = tmp_path / "_generated", tmp_path / "written"
    for path, text in (
        (package / "models" / "__init__.py", MODELS),
        (
            written / "facade.py",
            "from written._generated import models\nmodels.Other(models.Drive())\n",
        ),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    used = models_used(written, "_generated")
    lacking = Lacking({"PmemFields": "1.14.0"}, fields={"Pmem": ["path"]})
    notes = [f"client: {name} is not in 1.10.1" for name in ("Other", "PmemFields")]
    assert add_unsupported(package, "1.10.1", used, lacking) == notes
    text = (package / "models" / "unsupported.py").read_text("utf-8")
    assert "class Other(Unsupported):" in text
    assert "    path: Any" in text.partition("class PmemFields(TypedDict")[2]
    assert "class Drive" not in text
    assert add_unsupported(package, "1.10.1", used, lacking) == []


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
