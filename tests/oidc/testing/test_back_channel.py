from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from fastapi_oidc.testing import DevClient, LogoutDelivered
from tests.oidc.testing.bare_client import APP, BareClient, bare_client

URI = "https://app.test/backchannel-logout"
LISTENING = replace(APP, backchannel_logout_uri=URI)


class Listener:
    """The client's back-channel logout endpoint."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self.transport = httpx.MockTransport(self._serve)
        self.requests: list[httpx.Request] = []
        self._answer = answer

    def _serve(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answer(request)


def fail(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def listening(
    *clients: DevClient,
    answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(200),
) -> tuple[BareClient, Listener]:
    rp, listener = bare_client(*clients), Listener(answer)
    assert rp.provider.back_channel_transport is None
    rp.provider.back_channel_transport = listener.transport
    return rp, listener


async def test_every_client_of_the_session_is_told() -> None:
    other = replace(LISTENING, client_id="other", backchannel_logout_uri=URI + "/other")
    rp, listener = listening(LISTENING, other)
    await rp.code()
    await rp.code(client_id="other")
    await rp.provider.log_out("alice")
    assert {str(request.url) for request in listener.requests} == {URI, URI + "/other"}


@pytest.mark.parametrize(("answer", "status"), [(lambda _: httpx.Response(400), 400), (fail, None)])
async def test_a_client_that_does_not_take_it_is_recorded(
    answer: Callable[[httpx.Request], httpx.Response], status: int | None
) -> None:
    rp, _ = listening(LISTENING, answer=answer)
    await rp.code()
    await rp.provider.log_out("alice")
    assert [event.status for event in rp.provider.record.of(LogoutDelivered)] == [status]
    assert (await rp.answer(prompt="none", login_hint=""))["error"] == "login_required"
