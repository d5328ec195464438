"""What calls of other clients are here."""

from __future__ import annotations

import os
import re
from typing import Final, NoReturn

_STARTS, _ENDS = 'vm.action("InstanceStart")', 'vm.action("SendCtrlAltDel"), or Monitor.stop()'
_HERE: Final = {
    "start": _STARTS,
    "start_instance": _STARTS,
    "instance_start": _STARTS,
    "stop": _ENDS,
    "shutdown": _ENDS,
    "kill": "Monitor.kill() of generated_vmm.process",
    "create_snapshot": "vm.snapshot.create(...)",
    "load_snapshot": "vm.snapshot.load(...)",
    "add_drive": 'vm.drive("name").set(...)',
    "add_network_interface": 'vm.network_interface("eth0").set(...)',
    "info": "vm.get_instance_info()",
    "version": "vm.get_version()",
    "metrics_path": "vm.metrics.set(...)",
    "drives": 'vm.drive("name").set(...)',
    "network_interfaces": 'vm.network_interface("eth0").set(...)',
    "boot_args": 'vm.boot_source.set(kernel_image_path="...", boot_args="...")',
}


def no_member(client: object, name: str) -> NoReturn:
    """Raise AttributeError, with the call that does what `name` does elsewhere."""
    hint = f": {_HERE[name]}, where vm is the client" if name in _HERE else ""
    kind = type(client).__name__
    raise AttributeError(f"{kind} has no member {name!r}{hint}", name=name, obj=client)


def require_socket_path(path: object) -> str:
    """The path of a unix socket as text; raises TypeError and ValueError for anything else."""
    if not isinstance(path, str | bytes | os.PathLike):
        has_one = hasattr(path, "socket_path")
        instead = ": pass its socket_path, or use its client" if has_one else ""
        kind = type(path).__name__
        raise TypeError(f"socket_path is the path of a unix socket, not of type {kind}{instead}")
    text = os.fsdecode(path)
    if fault := next((fault for pattern, fault in _NO_PATHS.items() if pattern.match(text)), None):
        raise ValueError(f"socket_path is the path of a unix socket, {fault}: {text!r}")
    return text


_NO_PATHS: Final = {
    re.compile("[a-z+]+://"): "not a URL",
    re.compile("unix:"): "without unix: before it",
    re.compile("~"): "and nothing replaces the ~ (os.path.expanduser does)",
    re.compile(r"(\w[\w.-]*)?:\d+$"): "not an address",
}
"""How texts begin that are no paths, and what to say of them; `./` makes a path of any text."""
