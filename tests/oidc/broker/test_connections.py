"""A name is resolved once, checked, and the checked address itself is connected to."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fastapi_oidc.broker import Route
from tests.oidc.broker.apis import Api, says, serving
from tests.oidc.broker.rig import rigged
from tests.oidc.provider.certificates import Authority, listening_with_tls
from tests.oidc.provider.test_http import answers

NEVER = (
    "127.0.0.1 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 100.100.100.200 169.254.169.254 "
    "168.63.129.16 192.0.0.192 224.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 "
    "::ffff:169.254.169.254 ::10.0.0.1 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 "
    "2001:0:4136:e378:8000:63bf:3fff:fdd2 fe80::1 fec0::1 fc00::1 fd00:ec2::254 ff02::1 "
    "64:ff9b:1::a9fe:a9fe ::ffff:0:a9fe:a9fe 4000::1 5f00::1 2001:db8::1 3fff::1"
)
LOOPBACK = ("127.0.0.0/8", "::1/128")


PUBLIC = Route("https://calendar.test", allow=[], own_token=True)
EVERYWHERE = Route("http://calendar.test", allow=[], own_token=True, networks=["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize("address", NEVER.split())
def test_private_link_local_and_metadata_addresses_are_not_called(address: str) -> None:
    assert (PUBLIC.reaches(address), EVERYWHERE.reaches(address)) == (False, True)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_addresses_are_called_only_with_encryption(address: str) -> None:
    near = Route("http://calendar.test", allow=[], own_token=True, networks=["10.0.0.0/8"])
    assert (PUBLIC.reaches(address), near.reaches(address)) == (True, False)


def test_a_mapped_address_is_the_address_inside() -> None:
    near = Route("http://calendar.test", allow=[], own_token=True, networks=["10.0.0.0/8", "::/0"])
    assert near.reaches("::ffff:10.0.0.1")
    assert not near.reaches("::ffff:169.254.169.254")


class Names:
    """A name server whose answers change; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Sequence[str]) -> None:
        self.answers, loop = list(answers), asyncio.get_running_loop()
        self.look_up = loop.getaddrinfo
        monkeypatch.setattr(loop, "getaddrinfo", self)

    async def __call__(self, host: str, port: int, **options: Any) -> list[Any]:
        if host != "calendar.test":
            return await self.look_up(host, port, **options)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not found:
            raise OSError("no such name")
        return [(0, 0, 0, "", (address, port)) for address in found]


async def test_the_checked_address_is_connected_to_and_a_rebound_name_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Names(monkeypatch, ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "169.254.169.254"])
    async with serving(Api(says(b"", "200 OK", "Connection: close"))) as api:
        url = f"http://calendar.test:{api.port}"
        async with rigged(url=url, networks=LOOPBACK) as rig:
            assert (await rig.guest.get()).status_code == 200, "by the address that listens"
            refused = await rig.guest.get()
            assert (refused.status_code, refused.text[:15]) == (502, "broker.address:")
        assert [each.header("host") for each in api.received] == [f"calendar.test:{api.port}"]


@pytest.mark.parametrize("answer", [[], ["127.0.0.3"]])
async def test_a_name_without_an_address_is_unreachable(
    answer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Names(monkeypatch, answer)
    async with rigged(url="http://calendar.test:9", networks=LOOPBACK) as rig:
        refused = await rig.guest.get()
        assert (refused.status_code, refused.text[:19]) == (502, "broker.unreachable:")


async def test_the_certificate_is_checked_for_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    trusts = ssl.create_default_context(cafile=authority.file)
    async with listening_with_tls(answers, authority.issue("server")) as server:
        async with rigged(url=server.url, verify=trusts) as rig:
            assert (await rig.guest.get()).text == "ok"
        url = server.url.replace("127.0.0.1", "calendar.test")
        Names(monkeypatch, ["127.0.0.1"])
        async with rigged(url=url, networks=LOOPBACK, verify=trusts) as rig:
            assert (await rig.guest.get()).text.startswith("broker.unreachable:")
