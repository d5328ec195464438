import logging
import socket

import httpx
import pytest
import uvicorn

from fastapi_oidc.testing import DevProvider
from tests.oidc.testing.bare_client import ALICE, APP


@pytest.fixture
def provider() -> DevProvider:
    return DevProvider(users=[ALICE], clients=[APP])


def test_the_socket_becomes_the_issuer(provider: DevProvider) -> None:
    assert provider.issuer == "https://op.test"
    with provider.serve() as issuer:
        assert issuer == provider.issuer
        assert issuer.startswith("http://127.0.0.1:")
        metadata = httpx.get(issuer + "/.well-known/openid-configuration").json()
    assert metadata["issuer"] == issuer
    assert metadata["token_endpoint"] == issuer + "/token"


def test_no_part_of_an_answer_waits_for_the_acknowledgement_of_another(
    provider: DevProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[int] = []

    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        delays.extend(
            listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for listener in sockets
        )

    monkeypatch.setattr(uvicorn.Server, "run", run)
    with pytest.raises(RuntimeError, match="did not start"):
        provider.serve().__enter__()
    assert len(delays) == 1
    assert delays[0] != 0


def test_nothing_answers_after_the_block(provider: DevProvider) -> None:
    with provider.serve() as issuer:
        pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(issuer)


def test_it_listens_on_this_machine_alone(provider: DevProvider) -> None:
    with provider.serve() as issuer:
        port = int(issuer.rpartition(":")[2])
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), timeout=1)


def test_it_says_loudly_what_it_is_for(
    provider: DevProvider, caplog: pytest.LogCaptureFixture
) -> None:
    with provider.serve():
        pass
    [record] = [record for record in caplog.records if record.name.startswith("fastapi_oidc")]
    assert record.levelno == logging.WARNING
    assert "DEVELOPMENT ONLY" in record.getMessage()
