"""The destination comes from the table, whatever a hostile guest or API says."""

import asyncio

import pytest

from tests.oidc.broker.apis import Answer, Api, Received, says, serving
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import rigged


async def test_a_host_selects_a_route_and_is_no_destination_also_of_a_request_for_a_proxy() -> None:
    async with serving(Api()) as evil, rigged() as rig:
        for host in ("169.254.169.254", f"127.0.0.1:{evil.port}", "calendar.internal.test", ""):
            assert (await rig.guest.get(headers={"Host": host})).status_code == 404
        for host in (NAME, "Calendar.INTERNAL", "calendar.internal:8080"):
            assert await rig.guest.asks(f"http://{host}/events") == "200"
            assert (await rig.guest.get(headers={"Host": host})).status_code == 200
        assert rig.api.received[-1].header("host") == f"127.0.0.1:{rig.api.port}"
        assert await rig.guest.asks(f"http://127.0.0.1:{evil.port}/events") == "404"
        assert await rig.guest.asks(f"http://{NAME}@127.0.0.1:{evil.port}/events") == "404"
        assert await rig.guest.asks(f"https://{NAME}/events") == "400"
        for target in ("calendar.internal:443", f"127.0.0.1:{evil.port}"):
            assert await rig.guest.asks(target, method="CONNECT") == "400"
        assert evil.connections == 0


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/x/../%65vents", "200"),
        ("/files/%2e%2e/secrets", "403"),
        ("/files/..%2fsecrets", "400"),
        ("@evil.test/events", "400"),
        ("/events?access_token=mine", "400"),
    ],
)
async def test_paths_are_matched_as_they_are_sent(target: str, status: str) -> None:
    async with rigged() as rig:
        assert await rig.guest.asks(target) == status
        sent = [request.target for request in rig.api.received]
        assert sent == (["/events"] if status == "200" else [])


async def test_no_redirect_is_followed() -> None:
    async with serving(Api()) as evil:
        away = says(b"", "307 Temporary Redirect", f"Location: {evil.url}/events")
        async with rigged(api=Api(away)) as rig:
            answer = await rig.guest.get()
            assert answer.status_code == 307
            assert (evil.connections, len(rig.api.received)) == (0, 1)


async def test_a_route_has_a_path_of_its_own() -> None:
    async with serving(Api()) as api:
        async with rigged(url=f"{api.url}/v1/") as rig:
            await rig.guest.get("/events?q[]=1&b={2}|^")
            assert await rig.guest.asks("/../events") == "200"
        assert [each.target for each in api.received] == ["/v1/events?q[]=1&b={2}|^", "/v1/events"]


CHUNKED = "Transfer-Encoding: chunked"


async def nothing(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def nonsense(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")


ODD = [says(b"", "101 Switching"), says(b"", "999 Odd"), says(b"", "200 OK", CHUNKED)]


@pytest.mark.parametrize("answer", [nothing, nonsense, *ODD])
async def test_an_api_that_sends_nonsense_or_nothing_is_unreachable(answer: Answer) -> None:
    async with rigged(api=Api(answer)) as rig:
        refused = await rig.guest.get()
        assert (refused.status_code, refused.text[:19]) == (502, "broker.unreachable:")
