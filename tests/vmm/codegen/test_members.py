"""The page of client members says what the description says, and the client has them all."""

from __future__ import annotations

import copy
import functools

from codegen.document import operations_of
from codegen.report import members_page, without_member
from codegen.unsupported import used_by
from generated_vmm import VmmClient
from tests.vmm.codegen.descriptions import PROJECT, described_reference

USED = used_by(PROJECT.written, "operations")


@functools.cache
def page() -> str:
    return members_page(described_reference(), USED)


def test_every_operation_has_one_row() -> None:
    for path, method, operation in operations_of(described_reference()):
        rows = [line for line in page().splitlines() if f"`{method.upper()} {path}`" in line]
        assert len(rows) == 1
        assert f"`{operation['x-member']}" in rows[0]
        assert f" {operation['x-phase']} |" in rows[0]
        assert all(error in rows[0] for error in operation["x-errors"])


def test_every_phase_is_explained() -> None:
    explained = {
        line.split("|")[1].strip() for line in page().splitlines() if line.startswith("| ")
    }
    for _, _, operation in operations_of(described_reference()):
        for phase in operation["x-phase"].split(", with PCI"):
            assert phase.strip() in {*explained, "after start", ""}


def test_the_client_has_every_member() -> None:
    client = VmmClient("/nowhere")
    for _, _, operation in operations_of(described_reference()):
        found: object = client
        for step in operation["x-member"].split("."):
            found = getattr(found, step.removesuffix("(id)"))
            found = found("a") if step.endswith("(id)") and callable(found) else found
        assert callable(found)
    assert callable(client.action)


def test_an_operation_without_a_member_is_not_listed_as_one() -> None:
    document = copy.deepcopy(described_reference())
    vsock = document["paths"]["/vsock"]["put"]
    document["paths"]["/new"] = {"get": copy.deepcopy(vsock) | {"operationId": "getNew"}}
    del document["paths"]["/entropy"]["put"]["x-member"]
    assert [path for path, _, _ in without_member(document, USED)] == ["/entropy", "/new"]
    page = members_page(document, USED)
    assert "| `vsock.set` | `PUT /vsock`" in page
    assert "| `GET /new`" not in page
    assert "entropy.set" not in page
    assert page.endswith(
        "in `generated_vmm._generated.operations`.\n\n"
        "- `PUT /entropy` (`putEntropyDevice`)\n- `GET /new` (`getNew`)\n"
    )
