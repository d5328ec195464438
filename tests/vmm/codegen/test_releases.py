"""Which release has what is derived from the descriptions of releases, in whatever order."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from codegen.describe import repaired
from codegen.document import Document, Node
from codegen.import_spec import facts_of_description, import_spec
from codegen.releases import Releases, has, is_older, learn, places_of
from tests.vmm.codegen.descriptions import published, reference
from tests.vmm.codegen.releases import RELEASES, release

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
