"""The socket of a monitor's vsock device, which goes with the monitor."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

from generated_vmm.errors import VmmConnectionError
from generated_vmm.operation import Operation
from generated_vmm.process.run import Run
from generated_vmm.transport import CallFailed

SETS_VSOCK = {"/vsock", "/snapshot/load"}


def may_be_the_end(failed: CallFailed) -> bool:
    """Whether a call may have failed because the monitor has ended."""
    return failed.kind is VmmConnectionError and not failed.permanent


def owns_vsock(run: Run, operation: Operation[object]) -> Callable[[], bool]:
    """Lets the socket that a call makes go with the monitor, whatever becomes of the call.

    The result says whether that is done, and the call can be made.
    """
    path = _vsock_path_in(operation.body or b"")
    if path is not None:
        run.vsock_path = path
        thing = run.workspace.vsock_made_at(path)
        if thing is not None:
            return run.own(thing)
    return lambda: True


def _vsock_path_in(body: bytes) -> str | None:
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        value = json.loads(body)
        path = (value.get("vsock_override") or value).get("uds_path")
        return path if isinstance(path, str) else None
    return None


@contextlib.contextmanager
def opened_vsock(run: Run, path: str) -> Iterator[str]:
    """A path of the vsock device's socket that nobody can lead elsewhere."""
    try:
        found = run.workspace.open_socket(path)
    except OSError as error:
        raise VmmConnectionError(f"the vsock device's socket {path}: {error}") from error
    try:
        yield f"/proc/self/fd/{found}"
    finally:
        os.close(found)
