"""From a request line to the operation it means; the monitor's words for what it is not."""

from __future__ import annotations

from generated_vmm.testing.machine import Fault
from generated_vmm.testing.wire.http_layer import Request

NAMED_RESOURCES = frozenset({"drives", "pmem", "network-interfaces"})


def resource_of(request: Request) -> tuple[str, str]:
    """The operation's path, and the id in it or "". Raises `Fault`.

    A path is cut at each slash; what follows the parts a resource needs is ignored by the monitor.
    """
    first, *rest = _parts(request.path)
    hinting = request.method == "PATCH" and [first, *rest[:1]] == ["balloon", "hinting"]
    _refuse_body_or_lack_of_it(request, may_lack_body=hinting)
    if first in NAMED_RESOURCES and request.method != "GET":
        return f"{first}/{{id}}", _checked_id(rest)
    if first == "balloon" and request.method in ("GET", "PATCH"):
        return _balloon(request.method, rest), ""
    if first == "mmds" and request.method == "PUT" and rest:
        return _mmds(rest[0]), ""
    if first == "snapshot" and request.method == "PUT":
        return _snapshot(rest), ""
    if first == "hotplug" and rest[:1] == ["memory"]:
        return "hotplug/memory", ""
    if first == "vm" and request.method == "GET" and rest[:1] == ["config"]:
        return "vm/config", ""
    return first, ""


def unknown_operation(method: str, path: str) -> Fault:
    """The refusal of a path or method there is not; the path is shown without its slash."""
    return Fault(f"Invalid request method and/or path: {method} {path}.")


def _parts(path: str) -> list[str]:
    parts = path.lstrip("/").split("/")
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def _refuse_body_or_lack_of_it(request: Request, *, may_lack_body: bool) -> None:
    if request.method == "GET" and request.body is not None:
        raise Fault("GET request cannot have a body.")
    if request.method == "DELETE" and request.body is not None:
        raise Fault("Empty DELETE request.")
    if request.method in ("PUT", "PATCH") and request.body is None and not may_lack_body:
        raise Fault(f"Empty {request.method} request.")


def _checked_id(rest: list[str]) -> str:
    if not rest or not rest[0]:
        raise Fault("The ID cannot be empty.")
    if not all(letter == "_" or letter.isalnum() for letter in rest[0]):
        raise Fault("API Resource IDs can only contain alphanumeric characters and underscores.")
    return rest[0]


def _balloon(method: str, rest: list[str]) -> str:
    if rest[:1] == ["hinting"]:
        step = rest[1] if len(rest) > 1 else ""
        if step not in (("status",) if method == "GET" else ("start", "stop")):
            raise Fault(f"Unrecognized {method} request path `/hinting/{step}`.")
        return f"balloon/hinting/{step}"
    if rest[:1] == ["statistics"]:
        return "balloon/statistics"
    if method == "GET" and rest:
        raise Fault(f"Unrecognized GET request path `{rest[0]}`.")
    return "balloon"


def _mmds(second: str) -> str:
    if second != "config":
        raise Fault(f"Unrecognized PUT request path `{second}`.")
    return "mmds/config"


def _snapshot(rest: list[str]) -> str:
    if not rest:
        raise Fault("Missing snapshot operation type.")
    if rest[0] not in ("create", "load"):
        raise unknown_operation("PUT", f"/snapshot/{rest[0]}")
    return f"snapshot/{rest[0]}"
