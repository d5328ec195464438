"""What the committed description says: tests ask it, so that they hold for any release."""

import re

from codegen.document import Document, operations_of, schemas_of
from codegen.pipeline import described
from tests.vmm.codegen.descriptions import PROJECT

DOCUMENT: Document = described(PROJECT, PROJECT.description())
SCHEMAS: Document = schemas_of(DOCUMENT)


def has(line: str) -> bool:
    """Whether the monitor has the call of a request line without version: `PUT /drives/a`."""
    return any(
        re.fullmatch(f"{method.upper()} {re.sub('{[^}]+}', '[^/]+', path)}", line)
        for path, method, _ in operations_of(DOCUMENT)
    )


def has_field(place: str) -> bool:
    """Whether a model has the field, both as described: `NetworkInterface.mtu`."""
    name, _, field = place.partition(".")
    return field in SCHEMAS.get(name, {}).get("properties", {})
