"""Redis and Valkey in each of their shapes, reached by a user that may do no more than it must."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.oidc.redis_topologies.cluster import Cluster, running_cluster
from tests.oidc.redis_topologies.servers import PROGRAMS, Server, program_of, running
from tests.oidc.redis_topologies.watched import running_watched

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "sessions.md"
PASSWORD: Final = secrets.token_urlsafe(16)
FOR_A_BUSY_MACHINE: Final = "?socket_timeout=5&socket_connect_timeout=5"


def words_of_the_documented_user() -> str:
    """The line of docs/sessions.md, with a password of this run."""
    [words] = re.findall(r"^ACL SETUSER (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    return str(words).replace("PASSWORD", PASSWORD)


def allow_the_documented_user(*servers: Server) -> None:
    for server in servers:
        server.command("ACL SETUSER", *words_of_the_documented_user().split())


@contextmanager
def _alone(program: str, folder: Path) -> Iterator[str]:
    server = Server(program, folder / "server")
    with running(server):
        allow_the_documented_user(server)
        yield f"redis://127.0.0.1:{server.port}"


@contextmanager
def _cluster(program: str, folder: Path) -> Iterator[str]:
    with running_cluster(program, folder) as cluster:
        allow_the_documented_user(*cluster.nodes)
        yield cluster.url


@contextmanager
def _watched(program: str, folder: Path) -> Iterator[str]:
    with running_watched(program, folder, patience=60_000) as watched:
        allow_the_documented_user(*watched.servers)
        yield watched.url


SHAPES = {"alone": _alone, "cluster": _cluster, "sentinel": _watched}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    return program_of(request.param)


@pytest.fixture(scope="module", params=SHAPES)
def url(
    request: pytest.FixtureRequest, program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of one shape, with the user that docs/sessions.md allows."""
    with SHAPES[request.param](program, tmp_path_factory.mktemp(request.param)) as url:
        yield url.replace("://", f"://app:{PASSWORD}@") + FOR_A_BUSY_MACHINE


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
