"""A Redis server that tests kill, stop and start again; what it was told outlives it."""

from __future__ import annotations

from pathlib import Path

from redis import Redis

from tests.oidc.redis_topologies.servers import Server, program_of

KEPT_ON_DISK = ("--appendonly", "yes", "--appendfsync", "always")


class RedisProcess(Server):
    """One server in `folder`, which it writes every command to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(program_of("redis-server"), folder / "redis", *KEPT_ON_DISK)

    def url(self, **options: object) -> str:
        """Where it is, for `from_url`."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"redis://127.0.0.1:{self.port}?{query}"

    def held_until(self, keys: str) -> list[float]:
        """Until when the owner of each such record that was sent holds it, by Redis's clock."""
        with Redis(port=self.port) as client:
            records = [client.hgetall(key) for key in client.keys(keys)]
        return [float(each[b"u"]) / 1000 for each in records if each[b"p"] == b"sent"]

    def let_go(self, keys: str) -> None:
        """The time for which these records are held is over."""
        with Redis(port=self.port) as client:
            for key in client.keys(keys):
                client.hset(key, "u", 0)
