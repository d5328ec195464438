"""The second description: the API of the guest agent, which is ours and needs no repairs."""

from __future__ import annotations

import copy
from pathlib import Path

from codegen.describe import name_inline_objects, wrap_references
from codegen.document import Document, located, operations_of, read_yaml
from codegen.generate import generate_package
from codegen.import_spec import facts_of_description

BYTES = "application/octet-stream"
PACKAGE = "guest/_generated"
MODULES = ("__init__.py", "operations.py", "models/__init__.py")


def make_guest(description: Path, target: Path) -> None:
    """Write the package of the guest agent's API, not yet formatted, into the new folder `target`.

    Its operations that move bytes have no body: the client streams it.
    """
    with located(description):
        node = read_yaml(description)
        document: Document = copy.deepcopy(node.value)  # type: ignore[arg-type]  # an object
        for _, _, operation in operations_of(document):
            _omit_bytes(operation)
        facts_of_description(type(node)(document))  # the rules of every description
        name_inline_objects(document)
        wrap_references(document)
        generate_package(document, target, core={})
    for name in MODULES:
        module = target / name
        text = module.read_text(encoding="utf-8").replace("the monitor's HTTP", "the agent's HTTP")
        module.write_text(text.replace("to the monitor", "to the agent"), encoding="utf-8")


def _omit_bytes(operation: Document) -> None:
    if BYTES in operation.get("requestBody", {}).get("content", {}):
        del operation["requestBody"]
    for response in operation["responses"].values():
        if BYTES in response.get("content", {}):
            del response["content"]
