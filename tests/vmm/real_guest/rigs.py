"""The rigs: guests under QEMU, and guests of the real Firecracker in an emulated host."""

import os
import socket
import subprocess
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from generated_vmm import VmmClient
from generated_vmm.guest import Guest, Program
from generated_vmm.guest.agent import join
from generated_vmm.transport._sync.vsock import connect_vsock

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("RIG", HERE.parents[2] / "build" / "real-guest"))
RUN = FOLDER / "run"
EMULATED, OUTER, DEBIAN = (RUN / name / "v.sock" for name in ("guest", "outer", "debian"))
HOST_PORT = 8080  # of the host, as a guest sees it
PATIENCE = 120.0  # seconds: emulated twice, on a busy computer
BOOT_ARGS = (
    "console=ttyS0 reboot=k panic=1 mitigations=off quiet 8250.nr_uarts=1 i8042.noaux i8042.nomux "
    "i8042.dumbkbd no_timer_check tsc=reliable"
)


def rig(word: str) -> None:
    """Runs `rig.sh`; a rig that is started stays until `stop`."""
    with (RUN / "rig.log").open("w") as log:
        subprocess.run([HERE / "rig.sh", word], check=True, stdout=log, stderr=log)


def guest_of(path: Path) -> Guest:
    """The guest behind the unix socket of a vsock device, once it responds."""
    guest = Guest(path, timeout=PATIENCE)
    guest.wait_until_ready(2 * PATIENCE)
    return guest


class Bridge:
    """A unix socket here for a vsock port of the outer machine."""

    def __init__(self, path: Path, port: int) -> None:
        self.path, self._port = path, port
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(32)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                host, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(host,), daemon=True).start()

    def _serve(self, host: socket.socket) -> None:
        with host, suppress(OSError), connect_vsock(str(OUTER), self._port, PATIENCE) as inner:
            join(inner, host)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink(missing_ok=True)


class Firecracker:
    """The real monitor as a program of the outer machine, with bridges to its sockets.

    A guest's connection to `HOST_PORT` of its host arrives at `host_path`.
    """

    def __init__(self, outer: Guest, number: int, stack: ExitStack) -> None:
        self.folder, self.number = f"/vm/{number}", number
        outer.run(["mkdir", self.folder], check=True)
        api_path, vsock_path = f"{self.folder}/api.sock", f"{self.folder}/v.sock"
        ports = 7000 + 2 * number, 7001 + 2 * number
        self.host_path = RUN / "outer" / f"v.sock_{9000 + number}"
        api, vsock = (
            stack.enter_context(closing(Bridge(RUN / f"{name}{number}.sock", port))).path
            for name, port in zip(("api", "vsock"), ports, strict=True)
        )
        self._programs: list[Program] = [
            outer.start(["sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh", *args])
            for args in (
                [
                    "python3",
                    "-S",
                    "/vm/relay.py",
                    str(ports[0]),
                    api_path,
                    str(ports[1]),
                    vsock_path,
                    f"{vsock_path}_{HOST_PORT}",
                    str(9000 + number),
                ],
                ["firecracker", "--api-sock", api_path],
            )
        ]
        self.client = stack.enter_context(VmmClient(api, timeout=PATIENCE))
        self.client.wait_until_ready(PATIENCE)
        self.vsock_path = vsock

    def boot(self) -> Guest:
        """Starts a guest from nothing."""
        self.client.vsock.set(guest_cid=3, uds_path=f"{self.folder}/v.sock")
        self.client.boot(
            {
                "kernel_image_path": "/vm/vmlinux",
                "initrd_path": "/vm/initrd.gz",
                "boot_args": BOOT_ARGS,
            },
            machine_config={"vcpu_count": 1, "mem_size_mib": 256},
        )
        return guest_of(self.vsock_path)

    def load(self, snapshot: str) -> Guest:
        """Starts a clone of a snapshot, of which nothing is asked before its identity is new."""
        self.client.snapshot.load(
            snapshot_path=f"{snapshot}/state",
            mem_backend={"backend_type": "File", "backend_path": f"{snapshot}/memory"},
            vsock_override={"uds_path": f"{self.folder}/v.sock"},
            resume_vm=True,
        )
        return guest_of(self.vsock_path)

    def end(self) -> None:
        """Ends the monitor and its relay."""
        for program in self._programs:
            program.kill()
