"""Three masters of a cluster, without replicas, which have a third of the slots each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from redis.exceptions import RedisError

from tests.examples.programs import reserved_port
from tests.oidc.redis_topologies.servers import Server, running, until

SLOTS: Final = 16384
KEPT = ("--appendonly", "yes", "--appendfsync", "always")


class Node(Server):
    def __init__(self, program: str, folder: Path) -> None:
        super().__init__(program, folder)
        self.reserved.append(reserved_port())

    @property
    def bus_port(self) -> int:
        return int(self.reserved[1].getsockname()[1])

    def arguments(self) -> list[str]:
        as_node = ("--cluster-enabled", "yes", "--cluster-port", str(self.bus_port))
        return [*super().arguments(), *as_node, "--cluster-node-timeout", "1000", *KEPT]

    def knows_a_whole_cluster(self) -> bool:
        try:
            info = self.command("CLUSTER INFO")
        except RedisError:
            return False
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == 3


class Cluster:
    """Its nodes are found by asking the first one."""

    def __init__(self, program: str, folder: Path) -> None:
        self.nodes = [Node(program, folder / f"node-{number}") for number in range(3)]

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    def join(self) -> None:
        """All slots are covered, and every node knows it."""
        first, *others = self.nodes
        width = SLOTS // len(self.nodes) + 1
        for at, node in enumerate(self.nodes):
            last = min((at + 1) * width, SLOTS) - 1
            node.command("CLUSTER ADDSLOTSRANGE", at * width, last)
            node.command("CLUSTER SET-CONFIG-EPOCH", at + 1)
        for other in others:
            first.command("CLUSTER MEET", "127.0.0.1", other.port, other.bus_port)
        self.until_whole()

    def until_whole(self) -> None:
        until(lambda: all(node.knows_a_whole_cluster() for node in self.nodes), "a whole cluster")


@contextmanager
def running_cluster(program: str, folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(program, folder)
    with running(*cluster.nodes):
        cluster.join()
        yield cluster
