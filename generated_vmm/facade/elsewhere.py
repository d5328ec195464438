"""What calls of other clients and libraries are here."""

from __future__ import annotations

import os
import re
from typing import Final

from generated_vmm.misuse import require_replaced

CLIENT: Final = {
    "start start_instance instance_start": 'vm.action("InstanceStart")',
    "stop shutdown": 'vm.action("SendCtrlAltDel"), or Monitor.stop()',
    "kill": "Monitor.kill() of generated_vmm.process",
    "create_snapshot": "vm.snapshot.create(...)",
    "load_snapshot": "vm.snapshot.load(...)",
    "drives add_drive": 'vm.drive("name").set(...)',
    "network_interfaces add_network_interface": 'vm.network_interface("eth0").set(...)',
    "info": "vm.get_instance_info()",
    "version": "vm.get_version()",
    "metrics_path": "vm.metrics.set(...)",
    "boot_args": 'vm.boot_source.set(kernel_image_path="...", boot_args="...")',
}
MONITOR: Final = {
    "boot pause resume action drive network_interface snapshot": "monitor.client.{}",
    "shutdown terminate close": "monitor.stop()",
    "console stdout output": "monitor.serial",
    "copy_in link_in root": "JailedMonitor has it, and this monitor sees the host's files",
}
GUEST: Final = {
    "exec execute popen Popen call check_call shell": "guest.run([...]), or guest.start([...])",
    "check_output": "guest.run([...], check=True).stdout",
    "copy copy_to upload put push": 'guest.path("/file").write_from(open("file", "rb"))',
    "copy_from download get pull fetch": 'guest.path("/file").read_into(open("file", "wb"))',
    "read_file write_file open": 'guest.path("/file").read_bytes(), or write_bytes(...)',
    "close": "nothing: each request has a connection of its own",
    "mkdir remove chmod listdir": 'guest.run(["mkdir", "/folder"]), as in a shell',
}
PATH: Final = {
    "read_text": "read_bytes().decode()",
    "write_text": "write_bytes(text.encode())",
    "open": "read_bytes(), read_into(file), write_bytes(data) or write_from(file)",
    "name parent suffix stem parts": "pathlib.PurePosixPath(str(path)).{}",
    "is_file is_dir is_symlink lstat": "stat().kind, or FileNotFoundError",
    "mkdir unlink rename chmod touch iterdir": 'guest.run(["mkdir", path]), as in a shell',
}
PROGRAM: Final = {
    "stdout stderr read readline []": "program.output(), or program.communicate()",
    "stdin": "program.write(data), program.close_input()",
    "stop close terminate": "program.send_signal(signal.SIGTERM)",
    "exit_code status is_running": "program.poll(), which returns it",
    "returncode pid timed_out": "its state.{}, as of the last call such as poll()",
}
PIECE: Final = {"decode strip split splitlines startswith": "its data.{}", "[]": "its data"}
SERIAL: Final = {
    "readline readlines recv expect": "monitor.serial.read_until(b'...')",
    "send sendline": "monitor.serial.write(b'...\\n')",
    "[]": "monitor.serial.follow(), or read().data",
}
COMPLETED: Final = {"exit_code status": "its returncode", "output []": "its stdout and stderr"}
ITEMS: Final = {"[]": "its last, or list(...)", "groups seconds": "its last.{}"}
MACHINE: Final = {
    "boot run reboot restart": "machine.start(), after machine.stop() if it runs",
    "shutdown kill terminate": "machine.stop(grace=...)",
    "status is_running": "machine.state()",
    "destroy remove": "machine.delete()",
    "snapshots": "machines.snapshots()",
    "restore revert": 'machine.snapshot("name").restore("name of the copy")',
    "config configuration": "machine.definition.configuration",
    "drive network_interface action": "machine.client.{}",
}
MACHINES: Final = {
    "list machines values []": 'machines.all(), or machines.find("name")',
    "add new make": "machines.create(name, definition)",
    "delete remove start stop": "machines.find(name).{}()",
}


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
    require_replaced("socket_path", text)
    return text


_NO_PATHS: Final = {
    re.compile("[a-z+]+://"): "not a URL",
    re.compile("unix:"): "without unix: before it",
    re.compile(r"(\w[\w.-]*)?:\d+$"): "not an address",
}
"""How texts begin that are no paths, and what to say of them; `./` makes a path of any text."""
