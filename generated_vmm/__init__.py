"""A typed client for the HTTP API that the Firecracker monitor serves on a unix socket.

    with VmmClient("/run/firecracker.socket") as vm:
        vm.boot("/vm/vmlinux", "/vm/rootfs.ext4", {"vcpu_count": 2, "mem_size_mib": 512})

`AsyncVmmClient` has the same members, awaited. The names of the models are those of the monitor's
description, of the version in `API_VERSION`; `XFields` are the keyword arguments of model `X`.
`Monitor` starts a monitor of its own, see `generated_vmm.process`.
"""

from typing import TYPE_CHECKING

from generated_vmm._generated import API_VERSION
from generated_vmm._generated import models as _models
from generated_vmm.errors import (
    VmmApiError,
    VmmConnectionError,
    VmmDeprecationWarning,
    VmmError,
    VmmProtocolError,
    VmmRequestTooLarge,
    VmmTimeoutError,
)
from generated_vmm.facade import VmmClient
from generated_vmm.facade.config_file import to_config_file
from generated_vmm.operation import Operation

if TYPE_CHECKING:
    from generated_vmm._generated.models import *  # noqa: F403  # they change with the monitor
    from generated_vmm.facade import AsyncVmmClient
    from generated_vmm.process import AsyncJailedMonitor, AsyncMonitor, JailedMonitor, Monitor

    __version__: str

__all__ = [
    "API_VERSION",
    "AsyncJailedMonitor",
    "AsyncMonitor",
    "AsyncVmmClient",
    "JailedMonitor",
    "Monitor",
    "Operation",
    "VmmApiError",
    "VmmClient",
    "VmmConnectionError",
    "VmmDeprecationWarning",
    "VmmError",
    "VmmProtocolError",
    "VmmRequestTooLarge",
    "VmmTimeoutError",
    "to_config_file",
]
__all__ += _models.__all__

if not TYPE_CHECKING:
    # Names that many programs do not use are imported at their first use.
    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            found = version("generated-vmm")
        elif name.removeprefix("Async") in ("Monitor", "JailedMonitor"):
            from generated_vmm import process

            found = getattr(process, name)
        elif name == "AsyncVmmClient":
            from generated_vmm import facade

            found = facade.AsyncVmmClient
        elif name in _models.__all__:
            found = getattr(_models, name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
