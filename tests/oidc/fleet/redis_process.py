"""A Redis server that tests kill, stop and start again; what it was told outlives it."""

from pathlib import Path

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
