"""A Redis server that tests kill, stop and start again; what it was told outlives it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from redis import Redis

from tests.programs import require_program
from tests.redis_server import wait_until_listening

KEPT_ON_DISK = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


class RedisProcess:
    """One server on a unix socket in `folder`, which it writes every command to."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / "redis.sock"
        self._program = require_program("redis-server", package="redis-server")
        self._server: subprocess.Popen[bytes] | None = None

    def url(self, **options: object) -> str:
        """Where it is, for `from_url`."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"unix://{self._path}?{query}"

    def start(self) -> None:
        arguments = ["--port", "0", "--unixsocket", str(self._path), *KEPT_ON_DISK]
        self._server = subprocess.Popen(
            [self._program, *arguments], cwd=self._folder, stdout=subprocess.DEVNULL
        )
        wait_until_listening(self._path, self._server)

    def held_until(self, keys: str) -> list[float]:
        """Until when the owner of each such record that was sent holds it, by Redis's clock."""
        with Redis(unix_socket_path=str(self._path)) as client:
            records = [client.hgetall(key) for key in client.keys(keys)]
        return [float(each[b"u"]) / 1000 for each in records if each[b"p"] == b"sent"]

    def let_go(self, keys: str) -> None:
        """The time for which these records are held is over."""
        with Redis(unix_socket_path=str(self._path)) as client:
            for key in client.keys(keys):
                client.hset(key, "u", 0)

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        assert self._server is not None
        self._server.kill()
        self._server.wait(10)

    def mute(self) -> None:
        """It takes connections and commands, and answers none."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)

    def unmute(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGCONT)
