"""A release's own file becomes facts in OpenAPI 3.0, whatever dialect it is in."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codegen.document import Unusable, read_yaml, write_yaml
from codegen.import_spec import import_spec
from tests.vmm.codegen.descriptions import (
    PROJECT,
    PROSE,
    REFERENCE,
    ROOT,
    edited,
    published,
    reference,
    swagger,
    write,
)
from tests.vmm.codegen.releases import openapi_3_1

# Each line stands for nine times the one before: 9 ** 30 values in a kilobyte.
ALIAS_BOMB = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 31)
)
MERGE_BOMB = b"a0: &a0 {x: 1}\n" + b"".join(
    b"a%d: &a%d {<<: [%s]}\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 31)
)


def imported(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    return import_spec(write(document, folder))


def test_swagger_and_openapi_say_the_same(tmp_path: Path) -> None:
    assert imported(swagger(), tmp_path) == imported(reference(), tmp_path) == reference()


def test_openapi_3_1_writes_null_differently(tmp_path: Path) -> None:
    drive = imported(openapi_3_1(), tmp_path)["components"]["schemas"]["Drive"]["properties"]
    assert drive["partuuid"] == {"type": "string", "nullable": True}
    assert drive["rate_limiter"] == {
        "allOf": [{"$ref": "#/components/schemas/RateLimiter"}],
        "nullable": True,
    }


@pytest.mark.parametrize("path", [PROJECT.description(), REFERENCE], ids=["committed", "reference"])
def test_a_file_of_ours_is_what_an_import_writes(path: Path) -> None:
    assert write_yaml(import_spec(path)) == path.read_text(encoding="utf-8")


def test_words_beside_a_reference_do_not_hide_it(tmp_path: Path) -> None:
    def describe(document: dict[str, Any]) -> None:
        limiter = document["definitions"]["Drive"]["properties"]["rate_limiter"]
        limiter["description"] = PROSE

    drive = imported(edited(describe), tmp_path)["components"]["schemas"]["Drive"]
    assert drive["properties"]["rate_limiter"] == {"$ref": "#/components/schemas/RateLimiter"}


def test_what_a_release_says_about_groups_and_age_is_kept(tmp_path: Path) -> None:
    def group(document: dict[str, Any]) -> None:
        document["paths"]["/vsock"]["put"] |= {"tags": ["devices"], "deprecated": True}

    vsock = imported(edited(group), tmp_path)["paths"]["/vsock"]["put"]
    assert vsock["tags"] == ["devices"]
    assert vsock["deprecated"] is True


def test_yaml_is_read_as_version_1_2(tmp_path: Path) -> None:
    path = tmp_path / "description.yaml"
    path.write_text("level: [Error, Off, None, 2M, yes]\n200: ok", encoding="utf-8")
    assert read_yaml(path).value == {"level": ["Error", "Off", "None", "2M", "yes"], 200: "ok"}


def test_a_status_may_be_a_number_as_in_yaml(tmp_path: Path) -> None:
    document = swagger()
    path = tmp_path / "description.yaml"
    text = json.dumps(document).replace('"204": {', "204: {")
    path.write_text(text, encoding="utf-8")
    assert import_spec(path) == reference()


@pytest.mark.parametrize("path", published(), ids=lambda path: path.stem)
def test_a_published_file_is_of_the_version_in_its_name(path: Path) -> None:
    assert import_spec(path)["info"]["version"] == path.stem.removeprefix("firecracker-")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file contains no object"),
        (b"[1]", "the file contains no object"),
        (b"a: [", "not YAML"),
        (b"a: 1\na: 2", "not YAML"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"name: pip", "neither Swagger 2.0 nor OpenAPI 3.0 or 3.1"),
        (
            b"swagger: '2.0'\ninfo: {version: 1.0.0}\npaths: {}\ndefinitions: &a {b: *a}",
            r"\*a contains",
        ),
        (b"swagger: '2.0'\n200: 1\n'200': 2", "a key occurs twice"),
        (
            b"swagger: '2.0'\ninfo: {version: 1.0.0}\npaths: {}\ndefinitions:\n"
            b"  A: &a {type: array, items: *a}",
            r"the alias \*a contains itself",
        ),
        (b"a: " + b"[" * 60 + b"]" * 60, "nested deeper than 50 levels"),
        (b"a: " + b"[" * 100_000, "nested deeper than 50 levels"),
        (b"a: [" + b"1," * 50_000 + b"]", "more than 50000 values"),
        (b"a: " + b"x" * 2**20, "larger than 1048576 bytes"),
        (b"a: &a 1\nb: &a [2]", "the anchor &a occurs twice"),
        (b"a: &a [1]\nb: &a 2", "the anchor &a occurs twice"),
        (b"a: &a [&a 1]", "the anchor &a occurs twice"),
        (ALIAS_BOMB, "more than 50000 values, those of aliases included"),
        (MERGE_BOMB, "more than 50000 values, those of aliases included"),
        (b"a: 9" + b"9" * 5000, "not YAML"),
        (b"a: !!python/object/apply:os.getcwd []", "not YAML"),
        (b"openapi: 4.0.0", "neither Swagger 2.0 nor OpenAPI 3.0 or 3.1"),
    ],
)
def test_a_file_of_another_kind_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(Unusable, match=reason) as caught:
        import_spec(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_alias_stands_for_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "description.yaml"
    path.write_text("a: &a {x: [1, &b two]}\nb: [*a, *a, *b]", encoding="utf-8")
    assert read_yaml(path).value == {"a": {"x": [1, "two"]}, "b": [{"x": [1, "two"]}] * 2 + ["two"]}


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="No such file"):
        import_spec(tmp_path / "missing.yaml")


# No sentence of the releases' own files is in the project


RUN = 6
TEXTS = ("description", "summary", "title")
FOLDERS = ("openapi", "codegen", "generated_vmm", "docs")
# A fault of the monitor, word for word, that a description quotes as well.
FAULT = "missing field: either `mem_backend` or `mem_file_path` is required"


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def runs(text: str) -> set[str]:
    """Every six words in a row."""
    found = words(text)
    return {" ".join(found[start : start + RUN]) for start in range(len(found) - RUN + 1)}


def prose(value: object) -> Iterator[str]:
    """The texts of a description that are for people."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key in TEXTS and isinstance(member, str):
                yield member
            else:
                yield from prose(member)
    elif isinstance(value, list):
        for element in value:
            yield from prose(element)


def own_files() -> list[Path]:
    suffixes = {".py", ".yaml", ".md", ".jinja", ".toml", ".yml"}
    return [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    ]


@pytest.mark.parametrize("path", published(), ids=lambda path: path.stem)
def test_no_six_words_in_a_row_are_a_releases(path: Path) -> None:
    theirs = {run for text in prose(read_yaml(path).value) for run in runs(text)}
    assert len(theirs) > 500
    theirs -= runs(FAULT)
    for own in own_files():
        found = runs(own.read_text(encoding="utf-8")) & theirs
        assert not found, f"{own}: {sorted(found)[:3]}"
