"""From a request line to the operation it means; the monitor's words for what it is not."""

from __future__ import annotations

from generated_vmm.testing.description import OPERATIONS, Operation
from generated_vmm.testing.machine import Fault
from generated_vmm.testing.wire.http_layer import Request

MAY_LACK_BODY = [["balloon", "hinting"]]


def find_operation(request: Request) -> tuple[Operation, str]:
    """The operation and the id in the path, or "". Raises `Fault`.

    A path is cut at each slash; what follows the parts an operation needs is ignored.
    """
    parts = _parts(request.path)
    _refuse_body_or_lack_of_it(request, parts)
    _refuse_unrecognized(request.method, parts)
    fitting = [one for one in OPERATIONS if one.method == request.method and _fits(one, parts)]
    if not fitting:
        raise _unknown(request.method, parts)
    operation = max(fitting, key=lambda one: len(one.parts))
    return operation, _checked_id(operation, parts)


def _parts(path: str) -> list[str]:
    parts = path.lstrip("/").split("/")
    return parts[:-1] if not parts[-1] else parts


def _fits(operation: Operation, parts: list[str]) -> bool:
    wanted = operation.parts[:-1] if operation.parameter else operation.parts
    return parts[: len(wanted)] == wanted and (bool(wanted) or not parts)


def _refuse_body_or_lack_of_it(request: Request, parts: list[str]) -> None:
    if request.method == "GET" and request.body is not None:
        raise Fault("GET request cannot have a body.")
    if request.method == "DELETE" and request.body is not None:
        raise Fault("Empty Delete request.")
    may_lack = request.method == "PATCH" and parts[:2] in MAY_LACK_BODY
    if request.method in ("PUT", "PATCH") and request.body is None and not may_lack:
        raise Fault(f"Empty {request.method} request.")


def _refuse_unrecognized(method: str, parts: list[str]) -> None:
    """Where the monitor looks at the second segment, it has words of its own for a wrong one."""
    first, second, third = (*parts, "", "", "")[:3]
    hinting = {"GET": ("status",), "PATCH": ("start", "stop")}
    if [first, second] == ["balloon", "hinting"] and third not in hinting.get(method, (third,)):
        raise Fault(f"Unrecognized {method} request path `/hinting/{third}`.")
    known = {("GET", "balloon"): ("hinting", "statistics"), ("PUT", "mmds"): ("config",)}
    if second and second not in known.get((method, first), (second,)):
        raise Fault(f"Unrecognized {method} request path `{second}`.")
    if (method, first) == ("PUT", "snapshot") and second not in ("create", "load"):
        raise (
            _unknown("PUT", [f"/snapshot/{second}"])
            if second
            else Fault("Missing snapshot operation type.")
        )


def _unknown(method: str, parts: list[str]) -> Fault:
    """The refusal of a path or method there is not; the path is shown without its slash."""
    return Fault(f"Invalid request method and/or path: {method} {parts[0] if parts else ''}.")


def _checked_id(operation: Operation, parts: list[str]) -> str:
    if not operation.parameter:
        return ""
    given = (*parts, "")[len(operation.parts) - 1]
    if not given:
        raise Fault("The ID cannot be empty.")
    if not all(letter == "_" or letter.isalnum() for letter in given):
        raise Fault("API Resource IDs can only contain alphanumeric characters and underscores.")
    return given
