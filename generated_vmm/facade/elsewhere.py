"""What calls of other clients are here."""

from __future__ import annotations

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
}


def no_member(client: object, name: str) -> NoReturn:
    """Raise AttributeError, with the call that does what `name` does elsewhere."""
    hint = f": {_HERE[name]}, where vm is the client" if name in _HERE else ""
    kind = type(client).__name__
    raise AttributeError(f"{kind} has no member {name!r}{hint}", name=name, obj=client)


def require_socket_path(path: str) -> None:
    """Raise ValueError for a URL."""
    if "://" in path:
        raise ValueError(f"socket_path is the path of a unix socket, not a URL: {path!r}")
