"""Which releases of the monitor have what, derived from their descriptions.

`openapi/releases.yaml` lists the releases whose descriptions have been imported, and what not all
of them have: `1.14.4, -1.15.0, 1.15.1` was added by 1.14.4, is not in 1.15.0, and is in 1.15.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from codegen.document import (
    Document,
    is_free_form,
    located,
    operations_of,
    read_yaml,
    schemas_of,
    write_yaml,
)

Since: TypeAlias = tuple[str, ...]
NOT = "-"
HEAD = """\
# What not every release of the monitor has, and since when; before -1.15.0 it had what that lacks.
# Written by `make codegen`, of the descriptions that were imported.
"""


@dataclass(frozen=True, slots=True)
class Releases:
    """The known releases, oldest first, and since when they have what not all of them have."""

    known: Since = ()
    since: Mapping[str, Since] = field(default_factory=dict)

    def lacked_by(self, document: Document) -> dict[str, str]:
        """What a description lacks because its release is too old, and which releases have it."""
        if not self.known or not is_older(document["info"]["version"], self.known[-1]):
            return {}
        present = places_of(document)
        return {
            place: ", ".join(each for each in since if not each.startswith(NOT))
            for place, since in self.since.items()
            if place not in present and has(since, self.known[-1]) and not _is_open(document, place)
        }


def read_releases(path: Path) -> Releases:
    """The table in a file; an empty one if there is no file."""
    if not path.exists():
        return Releases()
    with located(path):
        members = read_yaml(path).only("releases", "since")
        since = {
            place: _versions(each.text()) for place, each in members["since"].members().items()
        }
        return Releases(_versions(members["releases"].text()), since)


def write_releases(releases: Releases) -> str:
    """The table as YAML."""
    since = {place: ", ".join(releases.since[place]) for place in sorted(releases.since)}
    return HEAD + write_yaml({"releases": ", ".join(releases.known), "since": since})


def learn(releases: Releases, document: Document, everywhere: Iterable[str]) -> Releases:
    """The table with one more release, as its repaired description says.

    `everywhere` is what all releases known so far have, unless the table says otherwise.
    """
    version, present = document["info"]["version"], places_of(document)
    known = tuple(sorted({*releases.known, version}, key=numbers))
    since: dict[str, Since] = {}
    nothing = ((), known[:1])  # no release has it, or each one
    for place in {*everywhere, *releases.since, *present}:
        if changes := releases.since.get(place):
            having = {each for each in releases.known if has(changes, each)}
        else:
            having = set(releases.known) if place in everywhere else set()
        is_there = place in present or _is_open(document, place)
        having = having | {version} if is_there else having - {version}
        since[place] = _changes(known, having)
    return Releases(known, {place: since[place] for place in since if since[place] not in nothing})


def _changes(known: Since, having: set[str]) -> Since:
    """The releases that added it or dropped it."""
    had, found = False, []
    for version in known:
        if (version in having) is not had:
            had = not had
            found.append(version if had else NOT + version)
    return tuple(found)


def has(since: Since, version: str) -> bool:
    """Whether a release has what these releases added or dropped."""
    latest = [each for each in since if not is_older(version, each.removeprefix(NOT))]
    return bool(latest) and not latest[-1].startswith(NOT)


def places_of(document: Document) -> set[str]:
    """The names of all calls, models and fields: `PUT /pmem/{id}`, `Pmem`, `Pmem.path_on_host`."""
    calls = {f"{method.upper()} {path}" for path, method, _ in operations_of(document)}
    fields = {
        f"{name}.{member}"
        for name, schema in schemas_of(document).items()
        for member in schema.get("properties", {})
    }
    return calls | fields | set(schemas_of(document))


def _is_open(document: Document, place: str) -> bool:
    """Whether it is a field of an object that may have any."""
    name, _, member = place.partition(".")
    schema = schemas_of(document).get(name)
    return bool(member) and schema is not None and is_free_form(schema)


def is_older(version: str, than: str) -> bool:
    """Whether one version comes before another; a suffix such as `-dev` is ignored."""
    return numbers(version) < numbers(than)


def numbers(version: str) -> list[int]:
    """The version as numbers, to compare."""
    return [int(part) for part in version.partition("-")[0].split(".")]


def _versions(text: str) -> Since:
    return tuple(text.split(", "))
