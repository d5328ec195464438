"""Recorded calls as Python and as curl, to be copied."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from examples.console.records import Call

_RESOURCES = {
    "/balloon/statistics": "balloon.stats",
    "/balloon/hinting/start": "balloon.hinting",
    "/balloon/hinting/status": "balloon.hinting",
    "/balloon/hinting/stop": "balloon.hinting",
    "/hotplug/memory": "hotplug_memory",
    "/snapshot/create": "snapshot",
    "/snapshot/load": "snapshot",
    "/vm/config": "vm_config",
}
"""The client's members for paths whose names differ."""
_DEVICES = {"/drives": "drive", "/network-interfaces": "network_interface", "/pmem": "pmem"}
"""The same for paths that end in an id."""
METADATA = "(document)"
_VERBS = {"PUT": "set", "PATCH": "update", "DELETE": "delete"}
_OWN = {
    "/balloon/hinting/start": "start",
    "/balloon/hinting/status": "status",
    "/balloon/hinting/stop": "stop",
    "/snapshot/create": "create",
    "/snapshot/load": "load",
}
_STATES = {"Paused": "pause", "Resumed": "resume"}


def python_of(calls: Sequence[Call], socket_path: str) -> str:
    """A program for `AsyncVmmClient` that makes the calls, in order."""
    lines = "\n".join(f"        await vm.{_expression(call)}" for call in calls)
    document = "    document = {}  # is not written down\n" if METADATA in lines else ""
    return (
        "import asyncio\n\n"
        "from generated_vmm import AsyncVmmClient\n\n\n"
        f"async def main() -> None:\n{document}"
        f"    async with AsyncVmmClient({socket_path!r}) as vm:\n"
        f"{lines}\n\n\n"
        "asyncio.run(main())\n"
    )


def curl_of(calls: Sequence[Call], socket_path: str) -> str:
    """The same for a shell."""
    return "\n".join(_curl(call, socket_path) for call in calls) + "\n"


def _curl(call: Call, socket_path: str) -> str:
    words = ["curl", "--unix-socket", socket_path, "-X", call.method]
    if call.body:
        words += ["-H", "Content-Type: application/json", "-d", call.body]
    return shlex.join([*words, f"http://localhost{call.path}"])


def _expression(call: Call) -> str:
    folder, _, device = call.path.rpartition("/")
    body = _body(call)
    if call.path == "/":
        return "get_instance_info()"
    if call.path == "/actions":
        return f"action({_only(body)!r})"
    if call.path == "/vm":
        return f"{_STATES.get(_only(body), 'pause')}()"
    if (name := _DEVICES.get(folder)) is None:
        name = _RESOURCES.get(call.path, call.path[1:].replace("-", "_").replace("/", "."))
        verb = _OWN.get(call.path, _VERBS.get(call.method, "get"))
        return f"{name}.{verb}({_arguments(call, body)})"
    own = {key: value for key, value in body.items() if value != device or not key.endswith("id")}
    return f"{name}({device!r}).{_VERBS.get(call.method, 'get')}({_arguments(call, own)})"


def _only(body: dict[str, object]) -> str:
    """The value of a body with one member."""
    return str(next(iter(body.values()), ""))


def _arguments(call: Call, body: dict[str, object]) -> str:
    if call.path == "/mmds" and call.method != "GET":
        return "document"
    return ", ".join(f"{name}={value!r}" for name, value in body.items())


def _body(call: Call) -> dict[str, object]:
    try:
        found = json.loads(call.body or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
