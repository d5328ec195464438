"""The page of client members says what the description says, and the client has them all."""

from __future__ import annotations

import copy

from codegen.document import operations_of
from codegen.pipeline import described
from codegen.report import members_page, without_member
from codegen.unsupported import used_by
from generated_vmm import VmmClient
from tests.vmm.codegen.descriptions import PROJECT, REFERENCE

USED = used_by(PROJECT.written, "operations")
DOCUMENT = described(PROJECT, REFERENCE)
PAGE = members_page(DOCUMENT, USED)


def test_every_operation_has_one_row() -> None:
    for path, method, operation in operations_of(DOCUMENT):
        rows = [line for line in PAGE.splitlines() if f"`{method.upper()} {path}`" in line]
        assert len(rows) == 1
        assert f"`{operation['x-member']}" in rows[0]
        assert f" {operation['x-phase']} |" in rows[0]
        assert all(error in rows[0] for error in operation["x-errors"])


def test_every_phase_is_explained() -> None:
    explained = {line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")}
    for _, _, operation in operations_of(DOCUMENT):
        for phase in operation["x-phase"].split(", with PCI"):
            assert phase.strip() in {*explained, "after start", ""}


def test_the_client_has_every_member() -> None:
    client = VmmClient("/nowhere")
    for _, _, operation in operations_of(DOCUMENT):
        found: object = client
        for step in operation["x-member"].split("."):
            found = getattr(found, step.removesuffix("(id)"))
            found = found("a") if step.endswith("(id)") and callable(found) else found
        assert callable(found)
    assert callable(client.action)


def test_an_operation_without_a_member_is_not_listed_as_one() -> None:
    document = copy.deepcopy(DOCUMENT)
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
