"""What reading and writing models costs, without a monitor."""

from __future__ import annotations

import json
from collections.abc import Iterator

from generated_vmm import FullVmConfiguration, MachineConfiguration
from tools.benchmarks.rounds import costs, repeated
from tools.benchmarks.targets import Target

ROUNDS = 41
CALLS = 200
VM_CONFIG = json.dumps(
    {
        "balloon": None,
        "drives": [
            {
                "drive_id": "rootfs",
                "partuuid": None,
                "is_root_device": True,
                "cache_type": "Unsafe",
                "is_read_only": False,
                "path_on_host": "/vm/rootfs.ext4",
                "rate_limiter": None,
                "io_engine": "Sync",
                "socket": None,
            }
        ],
        "boot-source": {
            "kernel_image_path": "/vm/vmlinux",
            "initrd_path": None,
            "boot_args": "console=ttyS0 reboot=k panic=1",
        },
        "cpu-config": None,
        "logger": None,
        "machine-config": {
            "vcpu_count": 2,
            "mem_size_mib": 512,
            "smt": False,
            "track_dirty_pages": False,
            "huge_pages": "None",
        },
        "metrics": None,
        "mmds-config": None,
        "network-interfaces": [
            {
                "iface_id": "eth0",
                "host_dev_name": "tap0",
                "guest_mac": "06:00:00:00:00:01",
                "mtu": None,
                "rx_rate_limiter": None,
                "tx_rate_limiter": None,
            }
        ],
        "pmem": [],
        "vsock": {"guest_cid": 3, "uds_path": "/vm/v.sock"},
        "entropy": None,
        "memory-hotplug": None,
    }
).encode()


def model_targets() -> Iterator[Target]:
    """Measures models, shows the figures and says what was aimed at."""
    machine = MachineConfiguration(vcpu_count=2, mem_size_mib=512)
    figures = costs(
        {
            "GET /vm/config to its model": repeated(
                lambda: FullVmConfiguration.from_answer(VM_CONFIG)
            ),
            "the same, json.loads": repeated(lambda: json.loads(VM_CONFIG)),
            "MachineConfiguration(...)": repeated(
                lambda: MachineConfiguration(vcpu_count=2, mem_size_mib=512)
            ),
            "MachineConfiguration to JSON": repeated(machine.to_json),
        },
        rounds=ROUNDS,
        calls=CALLS,
    )
    print(f"\nModels, µs; GET /vm/config has {len(VM_CONFIG)} bytes:")
    for name, cost in figures.items():
        print(f"  {name:<32}{cost.median_wall:6.1f}")
    read = figures["GET /vm/config to its model"].median_wall
    yield Target("GET /vm/config to its model", read, 15, "µs")
