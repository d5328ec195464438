"""Redis and Valkey in each of their shapes, reached by a user that may do no more than it must."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from tests.oidc.redis_topologies.clients import Connect, cluster_client, master_client
from tests.oidc.redis_topologies.cluster import Cluster, running_cluster
from tests.oidc.redis_topologies.servers import PROGRAMS, Server, program_of, running
from tests.oidc.redis_topologies.watched import running_watched

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "sessions.md"
PASSWORD: Final = secrets.token_urlsafe(16)
USER: Final[dict[str, Any]] = {"username": "app", "password": PASSWORD}


def words_of_the_documented_user() -> str:
    """The line of docs/sessions.md, with a password of this run."""
    [words] = re.findall(r"^ACL SETUSER (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    return str(words).replace("PASSWORD", PASSWORD)


def allow_the_documented_user(*servers: Server) -> None:
    for server in servers:
        server.command("ACL SETUSER", *words_of_the_documented_user().split())


@contextmanager
def _alone(program: str, folder: Path) -> Iterator[Connect]:
    server = Server(program, folder / "server")
    with running(server):
        allow_the_documented_user(server)
        yield partial(Redis, port=server.port, **USER)


@contextmanager
def _cluster(program: str, folder: Path) -> Iterator[Connect]:
    with running_cluster(program, folder) as cluster:
        allow_the_documented_user(*cluster.nodes)
        yield partial(cluster_client, cluster.ports, **USER)


@contextmanager
def _watched(program: str, folder: Path) -> Iterator[Connect]:
    with running_watched(program, folder, patience=60_000) as watched:
        allow_the_documented_user(*watched.servers)
        yield partial(master_client, watched.ports, **USER)


SHAPES = {"alone": _alone, "cluster": _cluster, "sentinel": _watched}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    return program_of(request.param)


@pytest.fixture(scope="module", params=SHAPES)
def connect(
    request: pytest.FixtureRequest, program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    """Makes clients of one shape, with the user that docs/sessions.md allows."""
    with SHAPES[request.param](program, tmp_path_factory.mktemp(request.param)) as connect:
        yield connect


@pytest.fixture
def prefix() -> str:
    """Keeps the keys of one test apart from those of the others; begins as the documents say."""
    return f"fastapi_oidc:{secrets.token_hex(8)}:"


@pytest.fixture(scope="module")
def cluster_of_module(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(program, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster_of_module: Cluster) -> Cluster:
    """A cluster that is whole and empty."""
    cluster_of_module.until_whole()
    for node in cluster_of_module.nodes:
        node.command("FLUSHALL")
    return cluster_of_module
