"""The simulated monitor as a process: arguments, exit statuses, log, metrics, console."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing.arguments import Arguments, WrongArguments
from generated_vmm.testing.outlets import Metrics
from generated_vmm.testing.process import main
from tests.vmm.simulator.caller import Caller

PATIENCE = 30
SOURCE = {"kernel_image_path": "/k", "boot_args": "console=ttyS0"}
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts the program and reads its log until it serves; what still runs is killed."""
    with ExitStack() as stack:

        def begin(*arguments: str) -> subprocess.Popen[bytes]:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "generated_vmm.testing", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            return process

        yield begin


def config(folder: Path, **members: object) -> Path:
    path = folder / "config.json"
    whole = {"boot-source": SOURCE, "drives": [], "balloon": None, **members}
    path.write_text(json.dumps(whole))
    return path


@pytest.fixture
def served(start: Start, folder: Path) -> subprocess.Popen[bytes]:
    """A monitor that serves, with its metrics and PCI."""
    process = start(
        "--api-sock", str(folder / "m.socket"), "--id", "vm-1", "--any-path",
        "--metrics-path", str(folder / "metrics"), "--show-level",
    )  # fmt: skip
    read_until(process, b"API server started.\n")
    return process


def read_until(process: subprocess.Popen[bytes], end: bytes) -> bytes:
    assert process.stdout is not None
    seen = b""
    while not seen.endswith(end):
        byte = process.stdout.read(1)
        assert byte, seen
        seen += byte
    return seen


def boot(folder: Path) -> Caller:
    call = Caller(folder / "m.socket")
    call.accepted("PUT", "/boot-source", SOURCE)
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    return call


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics").read_text().splitlines()]


def test_the_guest_talks_hears_and_resets(served: subprocess.Popen[bytes], folder: Path) -> None:
    call = boot(folder)
    seen = read_until(served, b"up\nconsole=ttyS0\n") + read_until(served, b"guest serves\n")
    assert b'received a Put request on "/actions" with body' in seen
    assert served.stdin is not None
    served.stdin.write(b"hi")
    served.stdin.flush()
    read_until(served, b"guest hears h\nguest hears i\n")
    call.accepted("PUT", "/actions", {"action_type": "SendCtrlAltDel"})
    rest, _ = served.communicate(timeout=PATIENCE)
    assert served.returncode == 0
    assert b"guest resets\n" in rest
    assert rest.endswith(b"[vm-1:main:INFO] Firecracker exiting successfully. exit_code=0\n")
    assert (folder / "m.socket").is_socket()


def test_metrics_count_since_the_line_before(served: subprocess.Popen[bytes], folder: Path) -> None:
    call = boot(folder)
    call.get("/")
    call.accepted("PUT", "/actions", {"action_type": "FlushMetrics"})
    call("PATCH", "/drives/x", {"drive_id": "x", "path_on_host": "/d"})
    call.accepted("PUT", "/actions", {"action_type": "SendCtrlAltDel"})
    served.wait(PATIENCE)
    started, flushed, last = lines_of(folder)
    assert started["put_api_requests"]["boot_source_count"] == 1
    assert started["put_api_requests"]["actions_count"] == 1
    assert flushed["put_api_requests"]["boot_source_count"] == 0
    assert flushed["get_api_requests"]["instance_info_count"] == 1
    assert flushed["uart"]["write_count"] > 0
    assert (last["patch_api_requests"]["drive_fails"], last["i8042"]["reset_count"]) == (1, 1)
    assert started["vcpu"]["exit_io_in_agg"] == {"min_us": 0, "max_us": 0, "sum_us": 0}


def test_each_drive_and_interface_has_a_group_of_its_own(
    served: subprocess.Popen[bytes], folder: Path
) -> None:
    call = Caller(folder / "m.socket")
    call.accepted("PUT", "/network-interfaces/eth0", {"iface_id": "eth0", "host_dev_name": "t0"})
    drive = {"drive_id": "rootfs", "path_on_host": "/d", "is_root_device": True}
    call.accepted("PUT", "/drives/rootfs", drive)
    boot(folder)
    call.accepted("PUT", "/actions", {"action_type": "FlushMetrics"})
    flushed = lines_of(folder)[-1]
    assert flushed["block_rootfs"] == flushed["block"]
    assert flushed["net_eth0"] == flushed["net"]
    assert flushed["net_eth0"]["rx_bytes_count"] == 0


def test_what_a_device_counts_is_in_the_group_of_its_kind_too() -> None:
    metrics = Metrics()
    metrics.count("block_a", "read_bytes", 1)
    metrics.count("block_b", "read_bytes", 2)
    line = json.loads(metrics.line(["block_a", "block_b", "block_c"]))
    counted = [line[group]["read_bytes"] for group in ("block_a", "block_b", "block_c", "block")]
    assert counted == [1, 2, 0, 3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_the_socket(
    served: subprocess.Popen[bytes], folder: Path, number: signal.Signals
) -> None:
    served.send_signal(number)
    assert served.wait(PATIENCE) == -number
    assert (folder / "m.socket").is_socket()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_program_of_ones_own_and_removes_its_socket(
    start: Start, folder: Path, number: signal.Signals
) -> None:
    path = folder / "m.socket"
    process = start("--any-path", "--id", "mine", "--socket", str(path))
    read_until(process, f"Simulated monitor listening on {path}\n".encode())
    assert Caller(path).get("/")["id"] == "mine"
    process.send_signal(number)
    _, complaints = process.communicate(timeout=PATIENCE)
    assert (process.returncode, complaints) == (0, b"")
    assert not path.exists()


def test_a_failed_load_ends_it(served: subprocess.Popen[bytes], folder: Path) -> None:
    backend = {"backend_path": "/no/memory", "backend_type": "File"}
    load = {"snapshot_path": "/no/state", "mem_backend": backend}
    assert Caller(folder / "m.socket")("PUT", "/snapshot/load", load).status == 400
    assert served.wait(PATIENCE) == 1


def test_a_microvm_from_a_file_and_its_metadata(start: Start, folder: Path) -> None:
    (folder / "metadata").write_text('{"a": 1}')
    # Ids are looked at in paths alone.
    drive = {"drive_id": "d-1", "is_root_device": True, "path_on_host": "/d"}
    interface = {"iface_id": "n", "host_dev_name": "tap0"}
    path = config(
        folder,
        **{
            "drives": [drive],
            "mmds-config": {"network_interfaces": ["n"], "version": "V2"},
            "network-interfaces": [interface],
            "surplus": 1,
        },
    )
    process = start(
        "--api-sock", str(folder / "m.socket"), "--config-file", str(path), "--any-path",
        "--metadata", str(folder / "metadata"), "--level", "Off",
    )  # fmt: skip
    read_until(process, b"guest serves\n")
    call = Caller(folder / "m.socket")
    assert call.get("/mmds") == {"a": 1}
    drives = call.get("/vm/config")["drives"]
    assert isinstance(drives, list)
    assert len(drives) == 1


def test_without_an_api_the_guest_runs_all_the_same(start: Start, folder: Path) -> None:
    process = start("--no-api", "--config-file", str(config(folder)), "--any-path")
    read_until(process, b"guest serves\n")
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.parametrize(
    "arguments",
    [
        ["--id", "a_b"],
        ["--id", "a" * 65],
        ["--config-file", "/no/such/file"],
        ["--metadata", "/no/such/file"],
        ["--http-api-max-payload-size", "many"],
    ],
    ids=" ".join,
)
def test_what_makes_the_program_panic_aborts_it(
    start: Start, folder: Path, arguments: list[str]
) -> None:
    process = start("--api-sock", str(folder / "m.socket"), *arguments)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGABRT
    assert b"Firecracker panicked" in out
    assert not (folder / "m.socket").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--level", "Loud"], 152, "Invalid value for logger level"),
        (["--log-path", "/no/such/folder/log"], 1, "Could not initialize logger"),
        (["--metrics-path", "/no/such/folder/m"], 1, "Could not initialize metrics"),
        (["--nope"], 153, "Found argument 'nope' which wasn't expected"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_begin_ends_with_its_status(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    assert main(["--api-sock", str(folder / "m.socket"), *arguments]) == status
    captured = capfd.readouterr()
    assert said in captured.out
    assert captured.out.endswith(f"Firecracker exiting with error. exit_code={status}\n")
    assert captured.err.startswith("Error: ")


@pytest.mark.parametrize("broken", ["{", "[]", '{"drives":[]}', '{"boot-source":{},"drives":[]}'])
def test_a_file_that_is_no_microvm_ends_it(
    folder: Path, capfd: pytest.CaptureFixture[str], broken: str
) -> None:
    path = folder / "config.json"
    path.write_text(broken)
    given = ["--api-sock", str(folder / "m.socket"), "--config-file", str(path)]
    assert main(given) == 1
    assert "Failed to build MicroVM from Json: " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--version", f"Firecracker v{API_VERSION}\n"), ("--help", "--api-sock <api-sock>")],
)
def test_what_is_only_asked_is_answered(
    capfd: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    assert main([flag, "surplus"]) == 0
    assert said in capfd.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["surplus"], "Found argument 'surplus'"),
        (["--id=a"], "Found argument 'id=a'"),
        (["--id", "a", "--id", "b"], "The argument 'id' was provided more than once."),
        (["--id"], "The argument 'id' requires a value"),
        (["--id", "--no-api"], "The argument 'id' requires a value"),
        (["--no-api"], "Argument 'config-file' required, but not found."),
        (["--no-seccomp", "--seccomp-filter", "f"], "cannot be used together with"),
    ],
)
def test_arguments_are_taken_strictly(given: list[str], said: str) -> None:
    with pytest.raises(WrongArguments, match=said):
        Arguments(given)
