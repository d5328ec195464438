"""A master and its replica, and a sentinel that makes a master of the replica."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.examples.programs import reserved_port
from tests.oidc.redis_topologies.clients import SERVICE
from tests.oidc.redis_topologies.servers import Server, running, until

AT_ONCE = ("--repl-diskless-sync-delay", "0")


class Watched:
    """The sentinel believes after `patience` milliseconds that a master is gone."""

    def __init__(self, program: str, folder: Path, patience: int) -> None:
        self.servers = [Server(program, folder / name, *AT_ONCE) for name in "ab"]
        self.sentinel = _Sentinel(program, folder / "sentinel")
        self.sentinel.patience = patience
        self.sentinel.reserved.append(reserved_port())

    @property
    def ports(self) -> list[int]:
        """Of two sentinels, the first of which is gone."""
        there, gone = (int(each.getsockname()[1]) for each in self.sentinel.reserved)
        return [gone, there]

    @property
    def master(self) -> Server:
        """As the sentinel knows it."""
        _, port = self.sentinel.command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replica(self) -> Server:
        master = self.master
        return next(server for server in self.servers if server is not master)

    def until_replicated(self) -> None:
        """The replica has all that the master was told."""
        until(lambda: self.master.command("WAIT", 1, 100) == 1, "a replica that is up to date")


class _Sentinel(Server):
    master_port = patience = 0

    def arguments(self) -> list[str]:
        configuration = self.folder / "sentinel.conf"
        configuration.write_text(
            f"bind 127.0.0.1\nport {self.port}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.master_port} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {self.patience}\n"
            f"sentinel failover-timeout {SERVICE} 2000\n"
        )
        return [str(configuration), "--sentinel"]

    def knows_a_replica(self) -> bool:
        return bool(self.command("SENTINEL REPLICAS", SERVICE))


@contextmanager
def running_watched(program: str, folder: Path, *, patience: int) -> Iterator[Watched]:
    watched = Watched(program, folder, patience)
    one, other = watched.servers
    with running(one, other):
        other.command("REPLICAOF", "127.0.0.1", one.port)
        watched.sentinel.master_port = one.port
        with running(watched.sentinel):
            watched.until_replicated()
            until(watched.sentinel.knows_a_replica, "a sentinel that knows the replica")
            yield watched
