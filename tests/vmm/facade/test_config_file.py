"""What `GET /vm/config` shows, as a document for the monitor's `--config-file`."""

from __future__ import annotations

import json

import pytest

from generated_vmm import FullVmConfiguration, to_config_file
from tests.vmm.described import has_field

SHOWN = {
    "balloon": None,
    "drives": [
        {
            "drive_id": "rootfs",
            "partuuid": None,
            "is_root_device": True,
            "cache_type": "Unsafe",
            "is_read_only": False,
            "path_on_host": "/r",
            "rate_limiter": {"bandwidth": None, "ops": {"size": 1, "refill_time": 2}},
            "io_engine": "Sync",
            "socket": None,
        }
    ],
    "boot-source": {"kernel_image_path": "/k", "initrd_path": None, "boot_args": "quiet"},
    "cpu-config": None,
    "logger": None,
    "machine-config": {"vcpu_count": 2, "mem_size_mib": 512, "smt": False},
    "metrics": None,
    "mmds-config": {"version": "V2", "network_interfaces": ["eth0"]},
    "network-interfaces": [{"iface_id": "eth0", "host_dev_name": "tap0", "mtu": None}],
    "pmem": [],
    "vsock": {"guest_cid": 3, "uds_path": "/v"},
    "entropy": {"rate_limiter": None},
    "memory-hotplug": None,
}


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def shown(**changes: object) -> FullVmConfiguration:
    return FullVmConfiguration.from_answer(json.dumps({**SHOWN, **changes}).encode())


def test_the_document_says_all_that_was_shown_and_no_null() -> None:
    known = {
        name: value for name, value in SHOWN.items() if has_field(f"FullVmConfiguration.{name}")
    }
    assert json.loads(to_config_file(shown())) == without_nulls(known)


def test_the_document_reads_back_as_the_same_configuration() -> None:
    document = to_config_file(shown())
    assert to_config_file(FullVmConfiguration.from_answer(document.encode())) == document


def test_the_list_of_drives_is_always_there() -> None:
    assert json.loads(to_config_file(shown(drives=None)))["drives"] == []


@pytest.mark.parametrize("boot_source", [None, {"kernel_image_path": ""}])
def test_without_a_kernel_there_is_no_document(boot_source: object) -> None:
    with pytest.raises(ValueError, match="kernel_image_path"):
        to_config_file(shown(**{"boot-source": boot_source}))
