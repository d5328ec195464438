"""The load that browsers make: whole answers are counted, and nothing but 200 is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tools.benchmarks.load_client import get, is_whole, load, summary

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nalice"


@pytest.mark.parametrize("length", range(len(ANSWER)))
def test_a_part_of_an_answer_is_not_whole(length: int) -> None:
    assert not is_whole(ANSWER[:length])


@pytest.mark.parametrize("answer", [ANSWER, b"HTTP/1.1 204 No Content\r\n\r\n"])
def test_an_answer_with_its_body_is_whole(answer: bytes) -> None:
    assert is_whole(answer)


def test_half_and_99_of_100_answers_came_within() -> None:
    taken = summary([number / 1000 for number in range(101)], 2)
    assert (taken.rate, taken.answers) == (50.5, 101)
    assert (round(taken.p50, 6), round(taken.p99, 6)) == (50, 99)


def test_a_request_carries_its_cookie() -> None:
    assert get("/me", "a=b").endswith(b"\r\nCookie: a=b\r\n\r\n")
    assert b"Cookie" not in get("/me", "")


@asynccontextmanager
async def answering(parts: list[bytes], asked: list[bytes]) -> AsyncIterator[int]:
    """The port of a server that gives each request the same answer, in parts."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                asked.append(request)
                for part in parts:
                    writer.write(part)
                    await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_each_connection_asks_its_own_and_each_answer_counts_once() -> None:
    asked: list[bytes] = []
    requests = [get("/me", f"browser={number}") for number in range(3)]
    async with answering([ANSWER[:20], ANSWER[20:]], asked) as port:
        borne = await load(port, requests, 0.05, connections=3)
    assert set(asked) == set(requests)
    assert borne.rate > 0
    assert borne.p50 <= borne.p99


async def test_another_answer_than_200_ends_the_measurement() -> None:
    async with answering([b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"], []) as port:
        with pytest.raises(RuntimeError, match=r"answered .*401"):
            await load(port, [get("/me", "")], 10, connections=1)


async def test_a_server_that_hangs_up_ends_the_measurement() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionError):
            await load(port, [get("/me", "")], 10, connections=1)
