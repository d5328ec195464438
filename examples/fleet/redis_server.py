"""The one Redis that all workers share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from redis import Redis
from redis.exceptions import RedisError

from examples.fleet.part import StartError
from examples.fleet.program import Program, path_of

KEPT: Final = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
"""Every command is on disk before its response: records of sessions survive a kill."""
BOUNDED: Final = ("--maxmemory", "256mb", "--maxmemory-policy", "noeviction")


class RedisServer(Program):
    """A redis-server on a unix socket in `folder`, which also has its data."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "redis.sock"
        arguments = ["--port", "0", "--unixsocket", str(self._path), *KEPT, *BOUNDED]
        super().__init__(
            "redis",
            [redis_server(), *arguments],
            folder,
            address=self._path,
            is_ready=self._answers,
        )

    @property
    def url(self) -> str:
        """Its URL for the workers."""
        return f"unix://{self._path}"

    def _answers(self) -> bool:
        """Whether it has loaded its data, which it does after it begins to listen."""
        try:
            with Redis(unix_socket_path=str(self._path), socket_timeout=1) as client:
                return bool(client.ping())
        except RedisError:
            return False


def redis_server() -> str:
    """The program; raises StartError if there is none."""
    found = path_of("redis-server")
    if found is None:
        raise StartError(
            "redis-server is missing. Install it with: apt-get install -y redis-server"
        )
    return found
