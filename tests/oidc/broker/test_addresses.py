"""A name is resolved once, checked, and the checked address itself is connected to."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import httpx
import pytest

from fastapi_oidc import Clock
from fastapi_oidc.broker.addresses import CheckedTransport, is_callable
from fastapi_oidc.broker.limits import Refused
from tests.oidc.broker.apis import Api, serving

NEVER = [
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fe80::1",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
]


@pytest.mark.parametrize("address", NEVER)
def test_private_link_local_and_metadata_addresses_are_not_called(address: str) -> None:
    assert not is_callable(ip_address(address), [])
    named = [ip_network(address)]
    assert is_callable(ip_address(address), named) or "ffff:" in address


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_addresses_are_called_only_with_encryption(address: str) -> None:
    assert is_callable(ip_address(address), [])
    assert not is_callable(ip_address(address), [], encrypted=False)


def test_a_mapped_address_is_the_address_inside() -> None:
    assert is_callable(ip_address("::ffff:10.0.0.1"), [ip_network("10.0.0.0/8")])


class Names:
    """A name server whose answers change."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def transport(names: Names, *networks: str) -> CheckedTransport:
    return CheckedTransport(tuple(map(ip_network, networks)), Clock(), resolve=names)


async def test_one_private_answer_among_others_refuses_the_name() -> None:
    names = Names(["93.184.216.34", "169.254.169.254"])
    async with httpx.AsyncClient(transport=transport(names)) as http:
        with pytest.raises(Refused, match=r"broker\.address"):
            await http.get("https://calendar.test/")


async def test_the_checked_address_is_connected_to_whatever_is_answered_next() -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    async with serving(Api()) as api:
        async with httpx.AsyncClient(transport=transport(names, "127.0.0.0/8")) as http:
            for _ in range(2):
                answer = await http.get(f"http://calendar.test:{api.port}/")
                assert answer.status_code == 200
        assert names.asked == 1
        assert [each.header("host") for each in api.received] == [f"calendar.test:{api.port}"] * 2


async def test_a_rebound_name_is_refused_after_its_time() -> None:
    now = [1_800_000_000.0]
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    checked = CheckedTransport(
        (ip_network("127.0.0.0/8"),), Clock(read=lambda: now[0]), resolve=names
    )
    async with serving(Api()) as api, httpx.AsyncClient(transport=checked) as http:
        await http.get(f"http://calendar.test:{api.port}/")
        now[0] += 31
        with pytest.raises(Refused, match=r"broker\.address"):
            await http.get(f"http://calendar.test:{api.port}/")


async def test_the_next_address_is_tried_if_nothing_was_sent() -> None:
    names = Names(["127.0.0.2", "127.0.0.1"])
    async with serving(Api()) as api:
        async with httpx.AsyncClient(transport=transport(names, "127.0.0.0/8")) as http:
            answer = await http.get(f"http://calendar.test:{api.port}/")
        assert answer.status_code == 200


async def test_a_name_without_an_address_is_a_failed_connection() -> None:
    for answer in ([], ["127.0.0.3"]):
        async with httpx.AsyncClient(transport=transport(Names(answer), "127.0.0.0/8")) as http:
            with pytest.raises(httpx.ConnectError):
                await http.get("http://calendar.test:9/")


async def test_the_system_resolves_names() -> None:
    checked = CheckedTransport((ip_network("127.0.0.0/8"), ip_network("::1")), Clock())
    async with serving(Api()) as api, httpx.AsyncClient(transport=checked) as http:
        assert (await http.get(f"http://localhost:{api.port}/")).status_code == 200
