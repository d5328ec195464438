"""Taps of the real kernel, which lists what is left. It needs root.

A network namespace takes the place of the host: Chromium gives up the requests of other tests when
the interfaces of its host change (ERR_NETWORK_CHANGED).
"""

import asyncio
import contextlib
import ctypes
import fcntl
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from generated_vmm.process import JailedMonitor, MonitorError

network = pytest.importorskip("generated_vmm.process.network", reason="not run: it needs pyroute2")

from pyroute2 import IPRoute  # noqa: E402  # after the check
from pyroute2.nftables.main import NFTables  # noqa: E402

from generated_vmm.process.__main__ import look_at_taps  # noqa: E402
from generated_vmm.process.keeper import taps  # noqa: E402
from generated_vmm.process.keeper.kernel import NETWORK as CLONE_NEWNET  # noqa: E402
from generated_vmm.process.keeper.kernel import join  # noqa: E402
from generated_vmm.process.keeper.taps import TUNSETIFF  # noqa: E402
from generated_vmm.process.network import Tap  # noqa: E402
from tests.vmm.process.conftest import PATIENCE, WAITS, Call, children_of, wait_until  # noqa: E402

T = TypeVar("T")
needs_kernel = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK),
    reason="not run: networks need root and /dev/net/tun",
)
NETWORK = "172.31.255.1/30"
IP_UDP = struct.Struct("!BBHHHBBH4s4sHHHH")


@contextlib.contextmanager
def network_namespace() -> Iterator[int]:
    """The descriptor of a network namespace without a name."""

    def made() -> int:
        assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    with ThreadPoolExecutor(1) as thread:
        namespace = thread.submit(made).result()
    try:
        yield namespace
    finally:
        os.close(namespace)


def inside(namespace: int, call: Callable[[], T]) -> T:
    """What a call gives, or raises, in a network namespace."""

    def join_and_call() -> T:
        join(namespace)
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(join_and_call).result()


def links() -> dict[str, Any]:
    """The interfaces that the kernel lists, by name."""
    with IPRoute() as route:
        return {link.get_attr("IFLA_IFNAME"): link for link in route.get_links()}


def addresses(name: str) -> list[tuple[str, int]]:
    with IPRoute() as route:
        found = route.get_addr(index=links()[name]["index"], family=socket.AF_INET)
        return [(each.get_attr("IFA_ADDRESS"), each["prefixlen"]) for each in found]


def left() -> tuple[set[str], list[str]]:
    """The interfaces and the tables of nftables that the kernel lists."""
    with NFTables() as nft:
        return set(links()), [table.get_attr("NFTA_TABLE_NAME") for table in nft.get_tables()]


@pytest.fixture
def host() -> Iterator[int]:
    """A network namespace in the host's place, which the test's thread has joined."""
    with open("/proc/thread-self/ns/net", "rb") as before, network_namespace() as namespace:
        join(namespace)
        yield namespace
        join(before.fileno())


@pytest.fixture
def name(host: int) -> str:
    return f"t{os.urandom(4).hex()}"


@pytest.fixture(params=["sync", "async"])
def block(request: pytest.FixtureRequest) -> Callable[[Tap], Any]:
    """The block of a tap, as `with` or `async with`."""

    @contextlib.contextmanager
    def awaited(tap: Tap) -> Iterator[Tap]:
        with asyncio.Runner() as runner:
            runner.run(tap.__aenter__())
            try:
                yield tap
            finally:
                runner.run(tap.__aexit__())

    return awaited if request.param == "async" else lambda tap: tap


@needs_kernel
def test_a_tap_is_there_in_its_block(block: Callable[[Tap], Any], name: str) -> None:
    for uid, owner in ((54_321, 54_321), (None, os.geteuid())):
        with block(Tap(name, address=NETWORK, uid=uid)):
            found = links()[name]
            info = found.get_attr("IFLA_LINKINFO")
            assert info.get_attr("IFLA_INFO_KIND") == "tun"
            assert info.get_attr("IFLA_INFO_DATA").get_attr("IFLA_TUN_OWNER") == owner
            assert found["state"] == "up"
            assert addresses(name) == [("172.31.255.1", 30)]
            with pytest.warns(RuntimeWarning, match=f"{name} has {NETWORK} already: packets go to"):
                Tap(address="172.31.0.1/16")
        assert name not in links()


@needs_kernel
def test_a_tap_is_a_port_of_a_bridge_which_stays(block: Callable[[Tap], Any], name: str) -> None:
    with IPRoute() as route:
        route.link("add", ifname=f"{name}b", kind="bridge")
        try:
            bridge = links()[f"{name}b"]["index"]
            with block(Tap(name, bridge=f"{name}b")):
                assert links()[name].get_attr("IFLA_MASTER") == bridge
            assert name not in links()
        finally:
            route.link("del", ifname=f"{name}b")


@needs_kernel
def test_an_attempt_that_fails_leaves_nothing(block: Callable[[Tap], Any], name: str) -> None:
    with pytest.raises(MonitorError, match="there is no interface missing"):
        block(Tap(name, bridge="missing")).__enter__()
    assert left() == ({"lo"}, [])


@needs_kernel
def test_a_name_that_is_taken_is_refused_and_left(block: Callable[[Tap], Any], name: str) -> None:
    with Tap(name):
        with pytest.raises(MonitorError, match=f"{name} is in use, and kept by process"):
            block(Tap(name)).__enter__()
        assert name in links()
    with pytest.raises(MonitorError, match="the interface lo exists"):
        block(Tap("lo")).__enter__()


@needs_kernel
def test_of_many_starters_of_one_name_one_gets_it(name: str) -> None:
    ready, done, results = threading.Barrier(4), threading.Barrier(4), list[str]()

    def start() -> None:
        ready.wait()
        try:
            with Tap(name):
                results.append("made")
                done.wait()
        except MonitorError as error:
            results.append("refused" if name in str(error) else str(error))
            done.wait()

    for _ in range(5):
        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == ["made"] * 5 + ["refused"] * 15
    assert name not in links()


@needs_kernel
def test_a_successor_of_the_same_name_is_left(name: str) -> None:
    with IPRoute() as route:
        with Tap(name):
            route.link("del", ifname=name)
            route.link("add", ifname=name, kind="tuntap", mode="tap")
        assert name in links()
        route.link("del", ifname=name)
    with Tap(name):
        taps.clean(name, f"{taps.PREFIX}another")
        assert name in links()


@needs_kernel
def test_a_forked_process_leaves_the_tap_to_its_parent(name: str) -> None:
    with Tap(name) as tap:
        if (pid := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                tap.__exit__()
            os._exit(0)
        os.waitpid(pid, 0)
        assert name in links()


class Interrupted(Exception):
    """What a signal handler raises."""


@needs_kernel
@pytest.mark.parametrize("method", ["_make", "_remove"])
def test_a_signal_handler_that_raises_leaves_nothing(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the tap is made or removed, once."""
    call, told = getattr(Tap, method), [None]

    def tell_and_call(self: Tap) -> None:
        if told:
            told.pop()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        call(self)

    def interrupt(*_: object) -> None:
        raise Interrupted

    monkeypatch.setattr(Tap, method, tell_and_call)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted), Tap(name):
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert name not in links()


@needs_kernel
async def test_a_cancelled_start_leaves_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, cancelled, make = threading.Event(), threading.Event(), Tap._make

    def wait_and_make(self: Tap) -> None:
        begun.set()
        cancelled.wait(PATIENCE)
        make(self)

    monkeypatch.setattr(Tap, "_make", wait_and_make)
    task = asyncio.create_task(Tap(name).__aenter__())
    await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert name not in await asyncio.to_thread(links)


@needs_kernel
async def test_a_cancelled_end_removes_the_tap(name: str) -> None:
    tap = await Tap(name).__aenter__()
    task = asyncio.create_task(tap.__aexit__())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert name not in await asyncio.to_thread(links)


@needs_kernel
def test_nat_needs_a_host_that_forwards(host: int) -> None:
    Path(taps.FORWARDING).write_text("0")
    with pytest.raises(MonitorError, match=r"sysctl -w net\.ipv4\.ip_forward=1$"):
        Tap(address=NETWORK, nat=True).__enter__()
    assert left() == ({"lo"}, [])


@needs_kernel
def test_nat_shows_the_host_instead_of_the_guest(host: int) -> None:
    """A packet of a guest reaches a socket outside with the host's address as its source."""
    Path(taps.FORWARDING).write_text("1")
    with network_namespace() as outside, Tap("tap0", address=NETWORK, nat=True) as tap:

        def listen() -> socket.socket:
            with IPRoute() as route:
                up(route, "eth0", "10.9.0.2")
            listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            listener.settimeout(PATIENCE)
            listener.bind(("10.9.0.2", 9))
            return listener

        with IPRoute() as route:
            peer = {"ifname": "eth0", "net_ns_fd": outside}
            route.link("add", ifname="uplink", kind="veth", peer=peer)
            up(route, "uplink", "10.9.0.1")
        with inside(outside, listen) as listener:
            send_as_guest(tap)
            assert listener.recvfrom(100) == (b"hello", ("10.9.0.1", 1024))
    assert left()[1] == []


def up(route: Any, name: str, address: str) -> None:
    index = links()[name]["index"]
    route.addr("add", index=index, address=address, prefixlen=24)
    route.link("set", index=index, state="up")


def send_as_guest(tap: Tap) -> None:
    """Writes a frame into the tap as a monitor does: Ethernet, IPv4 and UDP."""
    with open("/dev/net/tun", "r+b", buffering=0) as tun:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", tap.name.encode(), 0x1002))
        mac = links()[tap.name].get_attr("IFLA_ADDRESS").replace(":", "")
        guest, target = tap.guest.ip.packed, socket.inet_aton("10.9.0.2")  # type: ignore[union-attr]
        fields = [0x45, 0, 33, 1, 0, 64, 17, 0, guest, target, 1024, 9, 13, 0]
        words = struct.unpack("!10H", IP_UDP.pack(*fields)[:20])
        fields[7] = 0xFFFF - sum(words) % 0xFFFF  # RFC 1071
        ethernet = bytes.fromhex(mac) + bytes((6, 0)) + guest + b"\x08\x00"
        tun.write(ethernet + IP_UDP.pack(*fields) + b"hello")


KILLED = """\
from pathlib import Path
from generated_vmm.process import nursery
from generated_vmm.process.network import Tap
Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
os.environ["NURSERY"], nursery.PROGRAM = str(nursery.PROGRAM), Path(os.environ["COUNTED_TAPS"])

for line in sys.stdin:
    os.environ["KILLED"] = line
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.environ["CALLER"] = str(os.getpid())
        try:
            with Tap("tap0", address="172.31.255.1/30", nat=True):
                os.write(writing, b"x")
        except BaseException:
            os.write(writing, b"y")
        finally:
            os._exit(0)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    tell(status=os.waitstatus_to_exitcode(status), reached=os.read(reading, 1).decode())
    os.close(reading)
"""
COUNTED_TAPS = str(Path(__file__).with_name("counted_taps.py"))


@needs_kernel
@pytest.mark.parametrize("killed", ["caller", "keeper"])
def test_whoever_is_killed_at_any_moment_leaves_nothing(
    call: Call, host: int, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each call of the keeper that makes or removes a part of the tap."""
    monkeypatch.setenv("COUNTED_TAPS", COUNTED_TAPS)
    caller, results = call(KILLED), set[tuple[int, str]]()
    for moment in range(14):
        caller.go_on(f"{killed} {moment}")
        told = caller.told()
        results.add((told["status"], told["reached"]))
        wait_until(lambda: left() == ({"lo"}, []))
    if killed == "caller":  # before and after the tap was complete
        assert results == {(0, "x"), (-signal.SIGKILL, ""), (-signal.SIGKILL, "x")}
    else:
        assert results == {(0, "x"), (0, "y")}


STARTED = f"""\
from generated_vmm.process.network import Tap
with Tap("tap0", address="172.31.255.1/30"):
    tell()
    {WAITS}
"""


@needs_kernel
def test_the_tap_of_a_dead_owner_is_cleaned(host: int) -> None:
    with Tap("tap1"), IPRoute() as route:
        route.link("add", ifname="tap0", kind="tuntap", mode="tap")
        index = taps.find(route, "tap0")["index"]
        route.link("set", index=index, ifalias=f"{taps.PREFIX}dead")
        assert list(look_at_taps(clean=True)) == ["tap0"]
        assert "tap1" in links()
        assert "tap0" not in links()


@needs_kernel
def test_the_tap_of_a_dead_owner_is_taken_over(call: Call, host: int) -> None:
    """A container that is killed leaves its taps in the host's network namespace."""
    container = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    caller = call(STARTED, *container)
    caller.told()
    assert list(look_at_taps()) == []
    with pytest.raises(MonitorError, match="tap0 is in use"):
        Tap("tap0").__enter__()
    family = [caller.process.pid]  # all of it dies at once: nobody sees the others end
    for pid in family:
        family += children_of(pid)
    for pid in family[1:]:
        os.kill(pid, signal.SIGSTOP)
    caller.process.kill()
    caller.process.wait()
    wait_until(lambda: list(look_at_taps()) == ["tap0"])
    before = links()["tap0"]["index"]
    with Tap("tap0"):
        assert links()["tap0"]["index"] != before
    assert left() == ({"lo"}, [])


@needs_kernel
def test_without_the_capability_the_error_names_it(name: str) -> None:
    code = f"from generated_vmm.process.network import Tap\nTap({name!r}).__enter__()"
    drop = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
    command = [*drop, sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"the tap {name} cannot be created: " in result.stderr
    assert "; it needs CAP_NET_ADMIN and /dev/net/tun" in result.stderr


def test_without_pyroute2_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("keeper.taps", "network"):
        monkeypatch.delitem(sys.modules, f"generated_vmm.process.{module}")
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'generated-vmm\[network\]'"):
        importlib.import_module("generated_vmm.process.network")


@pytest.mark.parametrize("name", ["", "a" * 16, "ä" * 8, "a/b", "a b", "tap%d", ".", "..", "a:b"])
def test_a_name_that_no_interface_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name is"):
        Tap(name)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"address": "172.16.0.1"}, "must be the address of a host, with its prefix, as in"),
        ({"address": "nonsense/24"}, "'nonsense'"),
        ({"address": "fd00::1/64"}, "'fd00::1'"),
        ({"address": "172.16.0.0/30"}, "address is 172.16.0.0/30; it must be the address of"),
        ({"uid": "alice"}, "uid is 'alice'; it must be the number of a user"),
        ({"address": NETWORK, "bridge": "br0"}, "exclude each other"),
        ({"nat": True}, "nat needs an address"),
    ],
)
def test_options_that_no_tap_can_have_are_refused(options: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Tap(**options)


def test_the_guest_gets_the_first_free_address_and_a_mac_made_of_it() -> None:
    tap = Tap("tap0", address="172.16.0.1/30")
    assert tap.boot_argument == "ip=172.16.0.2::172.16.0.1:255.255.255.252::eth0:off"
    assert tap.interface == {"host_dev_name": "tap0", "guest_mac": "06:00:ac:10:00:02"}
    unknown = Tap("tap0")
    assert unknown.interface == {"host_dev_name": "tap0"}
    with pytest.raises(ValueError, match="pass address"):
        _ = unknown.boot_argument
    assert Tap().name != Tap().name


MADE = """\
import fcntl, struct, sys
import generated_vmm
from generated_vmm.process import Monitor
from generated_vmm.process.network import Tap
with Monitor([sys.executable, "-m", "generated_vmm.testing"]) as monitor:
    vm = generated_vmm.VmmClient(monitor.socket_path)
    interfaces = [each.network_interface("eth0") for each in (monitor.client, vm)]
    with Tap("tap0"):
        for interface in interfaces:
            interface.set(host_dev_name="tap0")
    with open("/dev/net/tun", "r+b", buffering=0) as tun:
        fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"tap0", 0x1002))  # TUNSETIFF
        for interface in interfaces:
            interface.set(host_dev_name="tap0")
"""


@needs_kernel
def test_a_tap_that_was_not_there_is_told() -> None:
    """A tap that a monitor has made itself ends with it. The flags of a tap are in /sys."""
    within = ["unshare", "--net", "--mount", "sh", "-c", 'mount -t sysfs sys /sys && exec "$@"']
    command = [*within, "sh", sys.executable, "-W", "always", "-c", MADE]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.count("RuntimeWarning") == 2
    assert "there was no tap 'tap0': the monitor has made one" in result.stderr


def carrier() -> int:
    """Whether a monitor has the tap open."""
    return cast(int, links()["tap0"].get_attr("IFLA_CARRIER"))


@needs_kernel
def test_a_jailed_guest_has_a_tap_in_a_namespace(folder: Path) -> None:
    """The real monitor opens it as the jailed user: the kernel says that the tap has a carrier."""
    names = [os.environ.get(name, "") for name in ("JAILER_BIN", "FIRECRACKER_BIN", "KERNEL")]
    if not all(names) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        pytest.skip("not run: it needs JAILER_BIN, FIRECRACKER_BIN, KERNEL and /dev/kvm")
    jailer, binary, kernel = (os.path.abspath(each) for each in names)
    user: Any = {"uid": 54_321, "gid": 54_321, "chroot_base_dir": folder / "jails"}
    tap = Tap("tap0", address=NETWORK, uid=54_321)
    with network_namespace() as namespace, contextlib.ExitStack() as stack:
        path = f"/proc/{os.getpid()}/fd/{namespace}"
        inside(namespace, tap.__enter__)
        stack.push(tap)
        jailed = JailedMonitor(jailer, binary, id="net", netns=path, **user)
        monitor = stack.enter_context(jailed)
        disk = folder / "disk"
        disk.write_bytes(bytes(1 << 20))
        assert Path(f"/proc/{monitor.pid}/ns/net").stat().st_ino == os.stat(path).st_ino
        assert inside(namespace, carrier) == 0
        monitor.client.network_interface("eth0").set(**tap.interface)
        arguments = f"console=ttyS0 {tap.boot_argument}"
        monitor.client.boot(
            {"kernel_image_path": monitor.copy_in(kernel), "boot_args": arguments},
            monitor.copy_in(disk),
            {"vcpu_count": 1, "mem_size_mib": 128},
        )
        monitor.serial.read_until(b"guest is up", timeout=PATIENCE)
        assert inside(namespace, carrier) == 1
