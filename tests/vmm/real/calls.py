"""Calls drawn at random from the description: mostly sensible, sometimes wrong in one place."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from generated_vmm.testing.description import CURRENT, Operation, Spec

WRONG: Final[tuple[object, ...]] = (
    None, True, -1, 0, 1.5, 2**32, 2**64, 1e30, "", "no/such", "\u0000", [], {}, [1], {"a": 1},
)  # fmt: skip
BROKEN: Final = (
    "", "  ", "{", "[", "null", "7", '"x"', "{}x", '{"a":', "{'a':1}", '{"a":1,}', "nan", "\x00",
    "[" * 200, '{"a":' * 200, '"\\ud800"', "1e999", "9" * 400,
)  # fmt: skip
IDS: Final = {"drive_id": ("d1", "d2", "d3"), "id": ("p1", "p2"), "iface_id": ("n1", "n2", "n3")}
PATHS: Final = ("{file}", "{other}", "{empty}", "{folder}", "/no/such/file")
WRITTEN: Final = ("{folder}/w1", "{folder}/w2", "/no/such/folder/file", "{folder}")
BAD_PATHS: Final = ("", "a\u0000b", "/" + "x" * 300)

VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "kernel_image_path": ("{kernel}", "{kernel}", "/no/such/kernel", "{folder}/none"),
    "initrd_path": (None, "{file}", "{empty}", "{folder}", "{big}", "/no/such/initrd"),
    "boot_args": ("console=ttyS0", None, "x" * 2500),
    "path_on_host": PATHS + BAD_PATHS,
    "socket": (None, None, "/no/such/socket", ""),
    "partuuid": (None, "0eaa91a0-01"),
    "log_path": (None, *WRITTEN, *BAD_PATHS),
    "metrics_path": (*WRITTEN, *BAD_PATHS),
    "serial_out_path": (None, None, "{folder}/serial", "/no/such/folder/serial"),
    "uds_path": ("{folder}/v1", "{folder}/v2", "", "{file}", "/no/such/v", "a\u0000", "/" * 200),
    "host_dev_name": ("{tap}1", "{tap}2", "{tap}3", "lo", "sixteen_letters_", "a/b"),
    "guest_mac": (None, "AA:FC:00:00:00:01", "aa:fc:00:00:00:02", "zz", "AA-FC-00-00-00-01"),
    "mtu": (None, 1500, 67, 68, 65535),
    "guest_cid": (3, 4, 0),
    "vsock_id": (None, None, "v"),
    "vcpu_count": (1, 2, 2, 3, 0, 33, 255, 256),
    "mem_size_mib": (128, 256, 257, 192, 0),
    "amount_mib": (10, 64, 0, 128, 200, 300, 5000),
    "stats_polling_interval_s": (1, 5, 0, 65536),
    "total_size_mib": (1024, 2048, 0, 1000, 128),
    "slot_size_mib": (128, 256, 100, 129),
    "block_size_mib": (2, 4, 1, 3),
    "requested_size_mib": (128, 256, 0, 129, 4096, 2**60),
    "network_interfaces": (["n1"], ["n1", "n2"], [], ["nope"]),
    "ipv4_address": (None, "169.254.169.254", "169.254.0.1", "10.0.0.1", "300.1.1.1"),
    "level": ("Info", "warn", "DEBUG", "Off", "Loud", None),
    "module": (None, "api_server"),
    "kvm_capabilities": ([], ["!9999"], ["x"]),
    "cpuid_modifiers": ([],),
    "msr_modifiers": ([],),
    "size": (1, 100, 0, 2**63),
    "refill_time": (1, 100, 0),
    "one_time_burst": (None, 0, 5),
    "snapshot_path": ("{folder}/state", "/no/such/folder/state", "a\u0000"),
    "mem_file_path": ("{folder}/memory", "/no/such/folder/memory", "{folder}"),
    "backend_path": ("{folder}/memory", "/no/such/memory"),
    "cpu_template": (None, None, "None", "V1N1", "X9"),
    "huge_pages": ("None", "3M"),
}
"""What is worth trying by field name, the sensible first.

A guest must be able to boot with what is accepted here.
"""

SENSIBLE: Final = 0.7
STARTED: Final = 0.6
NEVER: Final = frozenset({("PUT", "/snapshot/load")})
"""Ends the process nearly always: there is a script of its own for it."""
FOR_STARTED: Final = 5
DEVICES: Final = (
    "PUT /balloon",
    "PUT /drives/{drive_id}",
    "PUT /network-interfaces/{iface_id}",
    "PUT /mmds/config",
    "PUT /pmem/{id}",
    "PUT /hotplug/memory",
    "PUT /vsock",
)


@dataclass(frozen=True)
class Drawn:
    """One call; `text` is the body as it is sent, with names of host paths still to be put in."""

    method: str
    path: str
    text: str | None = None

    def __str__(self) -> str:
        body = "" if self.text is None else f" {self.text:.300}"
        return f"{self.method} {self.path}{body}"


KERNEL: Final = Drawn("PUT", "/boot-source", '{"kernel_image_path":"{kernel}"}')
START: Final = Drawn("PUT", "/actions", '{"action_type":"InstanceStart"}')


def draw_episode(random: random.Random, length: int) -> list[Drawn]:
    """The calls one fresh monitor gets: of all kinds, or some devices, a start, what follows."""
    operations = [one for one in CURRENT.operations if (one.method, one.path) not in NEVER]
    begin: list[Drawn] = []
    weights = [1] * len(operations)
    if random.random() < STARTED:
        begin = [*_devices(random), KERNEL, START]
        weights = [1 if one.phase.startswith("before") else FOR_STARTED for one in operations]
    drawn = [draw(random, one) for one in random.choices(operations, weights, k=length)]
    return [*begin, *drawn][:length]


def _devices(random: random.Random) -> list[Drawn]:
    """Calls that set up some devices, in an order in which they may work."""
    known = {one.endpoint: one for one in CURRENT.operations}
    listed = [known[endpoint] for endpoint in DEVICES if endpoint in known]
    return [draw(random, one) for one in listed if random.random() < 0.7]


def draw(random: random.Random, operation: Operation) -> Drawn:
    """One call of an operation."""
    path, resource_id = operation.path, ""
    if operation.parameter:
        resource_id = random.choice(IDS[operation.parameter])
        path = path.replace(f"{{{operation.parameter}}}", _now_and_then(random, resource_id, "a-b"))
    if random.random() < 0.02:
        path += random.choice(("/", "/x", "?x=1", "x"))
    if operation.body is None:
        return Drawn(operation.method, path, _now_and_then(random, None, "{}"))
    if random.random() < 0.03:
        return Drawn(operation.method, path, random.choice(BROKEN))
    if "fields" not in CURRENT.schemas[operation.body]:
        return Drawn(operation.method, path, json.dumps(_free_value(random)))
    body = _object(random, operation.body)
    if operation.parameter in body and resource_id:
        body[operation.parameter] = resource_id
    if random.random() < 0.15:
        _spoil(random, body)
    return Drawn(operation.method, path, json.dumps(body))


def _now_and_then(random: random.Random, usual: Any, other: str) -> Any:
    return other if random.random() < 0.02 else usual


def _object(random: random.Random, name: str) -> dict[str, Any]:
    required = CURRENT.schemas[name]["required"]
    members = list(CURRENT.schemas[name]["fields"].items())
    random.shuffle(members)
    chance = random.choice((0.2, 0.5, 0.8))
    return {
        key: _value(random, key, spec)
        for key, spec in members
        if key in required or random.random() < chance
    }


def _value(random: random.Random, key: str, spec: Spec) -> object:
    if key in VALUES:
        sensible = random.random() < SENSIBLE
        return random.choice(VALUES[key][:2] if sensible else VALUES[key])
    if "ref" in spec:
        inner = CURRENT.schemas[spec["ref"]]
        return _object(random, spec["ref"]) if "fields" in inner else _value(random, key, inner)
    if "enum" in spec:
        return random.choice(spec["enum"])
    if spec["type"] == "array":
        return []
    makers: dict[str, Callable[[], object]] = {
        "boolean": lambda: random.random() < 0.3,
        "integer": lambda: random.choice((0, 1, 100)),
    }
    return makers.get(spec["type"], lambda: random.choice(("a", "b")))()


def _spoil(random: random.Random, body: dict[str, Any]) -> None:
    key = random.choice([*body, "surplus"])
    if random.random() < 0.2 and key in body:
        del body[key]
    else:
        body[key] = random.choice(WRONG)


def _free_value(random: random.Random, depth: int = 0) -> object:
    if depth < 3 and random.random() < 0.6:
        keys = random.choices("abc", k=random.randrange(4))
        return {key: _free_value(random, depth + 1) for key in keys}
    return random.choice((None, 1, 2.5, "é", [1, {"b": 2}], True, "x" * 100))
