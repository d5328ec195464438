"""The page of client members says what the description says."""

from __future__ import annotations

import copy
import functools
import re

import pytest

from codegen.document import Unusable, operations_of
from codegen.members import members_of, require_free, suggested
from codegen.report import members_page, without_member
from codegen.unsupported import Lacking
from tests.vmm.codegen.descriptions import PROJECT, described_reference

HEAD = PROJECT.root / "codegen" / "members_head.md"


@functools.cache
def page() -> str:
    return members_page(described_reference(), HEAD)


def test_every_operation_has_one_row() -> None:
    for path, method, operation in operations_of(described_reference()):
        rows = [line for line in page().splitlines() if f"`{method.upper()} {path}`" in line]
        assert len(rows) == 1
        assert f"`{operation['x-member']}" in rows[0]
        assert f" {operation['x-phase']} |" in rows[0]
        assert all(error.removeprefix("400 ") in rows[0] for error in operation["x-errors"])


def test_every_phase_is_explained() -> None:
    explained = {
        line.split("|")[1].strip() for line in page().splitlines() if line.startswith("| ")
    }
    for _, _, operation in operations_of(described_reference()):
        for phase in operation["x-phase"].split(", with PCI"):
            assert phase.strip() in {*explained, "after start", ""}


def test_an_operation_without_a_member_is_not_listed_as_one() -> None:
    document = copy.deepcopy(described_reference())
    new = copy.deepcopy(document["paths"]["/vsock"]["put"]) | {"operationId": "getNew"}
    del new["x-member"]
    document["paths"]["/new"] = {"get": new}
    del document["paths"]["/entropy"]["put"]["x-member"]
    assert [path for path, _, _ in without_member(document)] == ["/entropy", "/new"]
    page = members_page(document, HEAD)
    assert "| `vsock.set` | `PUT /vsock`" in page
    assert "| `GET /new`" not in page
    assert "entropy.set" not in page
    assert page.endswith(
        "in `generated_vmm._generated.operations`.\n\n"
        "- `PUT /entropy` (`putEntropyDevice`)\n- `GET /new` (`getNew`)\n"
    )


PLACES = {
    "get": "and the path need the same number of ids: 1",
    "a.get": "and the path need the same number of ids: 1",
    "a(id).b(id).get": "and the path need the same number of ids: 1",
    "drive(id)": "has 'drive(id)', which is no name",
    "Drive(id).get": "has 'Drive', which is no name",
    "class(id).get": "has 'class', which is no name",
    "_a(id).get": "has '_a', which is no name",
    "drive(id).set": "is another member already",
    "vsock(id).get": "has 'vsock(id)', which is another member already",
    "boot(id).get": "begins with 'boot', which the client has already",
}


@pytest.mark.parametrize(("member", "reason"), PLACES.items(), ids=PLACES)
def test_a_place_that_a_call_cannot_have_is_refused(member: str, reason: str) -> None:
    document = copy.deepcopy(described_reference())
    new = document["paths"]["/drives/{drive_id}"]["delete"]
    document["paths"]["/new/{id}"] = {"get": new | {"x-member": member}}
    with pytest.raises(Unusable, match=re.escape(f"GET /new/{{id}}: x-member '{member}' {reason}")):
        require_free(members_of(document, Lacking()), PROJECT.written / "facade/_async/client.py")


SUGGESTED = {
    "GET /clock": "clock.get",
    "PUT /things": "things.set",
    "PATCH /things/{a}/of/{id}": "all_things(id).of(id).update",
    "DELETE /import/2nd": "call_import.call_2nd.delete",
    "GET /pmem": "all_pmem.get",
    "GET /boot": "all_boot.get",
}


def test_the_suggested_names_are_free() -> None:
    document = copy.deepcopy(described_reference())
    for place in SUGGESTED:
        method, _, path = place.partition(" ")
        document["paths"].setdefault(path, {})[method.lower()] = {"responses": {}}
    client = PROJECT.written / "facade/_async/client.py"
    assert suggested(document, Lacking(), client) == SUGGESTED
