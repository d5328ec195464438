"""A script is sent to a Redis that does not know it, and named from then on."""

from __future__ import annotations

from redis.asyncio import Redis

from fastapi_oidc.session.redis.scripts import Script


async def times_sent(redis: Redis) -> int:
    commands = await redis.info("commandstats")
    return int(commands.get("cmdstat_eval", {}).get("calls", 0))


async def test_a_script_is_sent_once_and_again_when_it_was_forgotten(redis: Redis) -> None:
    script = Script("return {KEYS[1], ARGV[1], #KEYS}")
    before = await times_sent(redis)
    for times in (1, 2):
        await redis.script_flush()
        for _ in range(2):
            assert await script.run(redis, ["key"], ["argument"]) == [b"key", b"argument", 1]
            assert await times_sent(redis) == before + times
