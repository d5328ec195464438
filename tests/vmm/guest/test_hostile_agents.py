"""Agents that are slow, lie, flood or are too old: the host is told, in time, and stays small."""

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from generated_vmm.guest import GuestAgentError, GuestAgentTimeout
from tests.vmm.guest.conftest import Start
from tests.vmm.scripted import Play, ScriptedServer, Serve, Wire, answer, served

AGENT = {"version": 1, "instance": "one", "isolated": True}
PROGRAM = {
    "id": "p", "pid": 7, "args": ["true"], "timed_out": False, "output_bytes": 0, "input_bytes": 0,
    "takes_input": True,
}  # fmt: skip
START, EXCHANGE = b"PUT /programs/", b"PATCH /programs/"
OUTPUT = {"frames": [], "program": PROGRAM}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from served(tmp_path / "agent.socket")


def reply(value: object, status: int = 200) -> bytes:
    return answer(status, json.dumps(value).encode())


def lying(output: object) -> Play:
    """An agent that is honest about itself and its programs, and answers so about output."""

    def play(wire: Wire) -> None:
        while wire.request():
            wire.send(reply(AGENT if b"/agent " in wire.latest else output))

    return play


def frame(data: bytes = b"x") -> dict[str, object]:
    return {"is_error": False, "data": base64.b64encode(data).decode(), "lost_bytes": 0}


LIES = {
    "no base64": OUTPUT | {"frames": [frame() | {"data": "%"}]},
    "no stream": OUTPUT | {"frames": [frame() | {"is_error": "log"}]},
    "no program": {"frames": []},
    "another type": OUTPUT | {"program": PROGRAM | {"returncode": "0"}},
    "no object": [1, 2],
}
NOTHING = {
    "no frames": OUTPUT,
    "output that never comes": OUTPUT | {"program": PROGRAM | {"output_bytes": 1}},
    "empty frames": OUTPUT | {"frames": [frame(b"")] * 3},
    "less than nothing lost": OUTPUT | {"frames": [frame(b"") | {"lost_bytes": -1}]},
}


@pytest.mark.parametrize("output", LIES.values(), ids=LIES)
def test_a_lie_about_output_is_an_error_of_the_agent(
    serve: Serve, connect: Start, output: object
) -> None:
    guest = connect(serve(lying(output)).path, port=None)
    with pytest.raises(GuestAgentError, match="not a response of an agent"):
        guest.run(["true"])


@pytest.mark.parametrize("output", NOTHING.values(), ids=NOTHING)
def test_an_agent_that_answers_early_without_news_does_not_keep_the_host_busy(
    serve: Serve, connect: Start, output: object
) -> None:
    server = serve(lying(output))
    guest = connect(server.path, port=None, timeout=0.2)
    with pytest.raises(GuestAgentTimeout):
        guest.run(["true"], timeout=0.2)
    assert len(server.requests) < 20


def silent(wire: Wire) -> None:
    wire.request()
    wire.receive()


ENDLESS = {
    "a body": b"HTTP/1.1 200 -\r\nContent-Length: 999999999999\r\n\r\n",
    "headers": b"HTTP/1.1 200 -\r\n",
    "no HTTP": b"",
}


@pytest.mark.parametrize("head", ENDLESS.values(), ids=ENDLESS)
def test_a_flood_ends_where_the_limit_is(serve: Serve, connect: Start, head: bytes) -> None:
    sent = 0

    def flood(wire: Wire) -> None:
        nonlocal sent
        wire.request()
        wire.send(head)
        while True:  # until the host hangs up
            wire.send(b"X-Name: value\r\n" * 4000)
            sent += 60_000

    guest = connect(serve(flood).path, port=None)
    with pytest.raises(GuestAgentError):
        guest.info()
    assert sent < 5_000_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda guest: guest.info(),
        lambda guest: guest.path("/file").read_bytes(),
        lambda guest: guest.path("/file").write_bytes(bytes(10_000_000)),
        lambda guest: guest.connect(80),
    ],
    ids=["call", "download", "upload", "port"],
)
def test_a_slow_agent_is_late(
    serve: Serve, connect: Start, ask: Callable[[object], object]
) -> None:
    guest = connect(serve(silent).path, port=None, timeout=0.2)
    begun = time.monotonic()
    with pytest.raises(GuestAgentTimeout, match="the agent may have carried it out") as caught:
        ask(guest)
    assert isinstance(caught.value, TimeoutError)
    assert time.monotonic() - begun < 30


def test_an_agent_that_hangs_up_is_asked_again(serve: Serve, connect: Start) -> None:
    def hang_up(wire: Wire) -> None:
        wire.request()
        if len(server.requests) > 2:
            wire.send(reply(AGENT))

    server = serve(hang_up)
    assert connect(server.path, port=None).info().version == 1
    assert len(server.requests) == 3


def test_an_older_agent_is_named_with_what_it_lacks(serve: Serve, connect: Start) -> None:
    def older(wire: Wire) -> None:
        while wire.request():
            if b"/agent " in wire.latest:
                wire.send(reply(AGENT))
            else:
                fault = {"fault_message": "version 1 does not know limits", "version": 1}
                wire.send(reply(fault, 501))

    guest = connect(serve(older).path, port=None)
    with pytest.raises(GuestAgentError, match="refused: version 1 does not know limits"):
        guest.run(["true"], limits={"open_files": 10})


@pytest.mark.parametrize("fault", [b"", b"no JSON", b'{"code": "x"}', b'{"fault_message": 5}'])
def test_a_refusal_without_a_reason_is_an_error_of_the_agent(
    serve: Serve, connect: Start, fault: bytes
) -> None:
    server: ScriptedServer = serve(lambda wire: wire.answer_all(answer(500, fault)))
    with pytest.raises(GuestAgentError, match="not a response of an agent, with status 500"):
        connect(server.path, port=None).info()


def slowly(wire: Wire, content: bytes) -> None:
    """Sends bytes one by one, each long before a host stops waiting for the next."""
    for byte in content:
        wire.send(bytes([byte]))
        time.sleep(0.05)


def test_a_port_is_joined_in_time_or_not_at_all(serve: Serve, connect: Start) -> None:
    def drip(wire: Wire) -> None:
        wire.request()
        slowly(wire, b"HTTP/1.1 200 -\r\nX: " + b"x" * 1000)

    guest = connect(serve(drip).path, port=None, timeout=0.3)
    begun = time.monotonic()
    with pytest.raises(GuestAgentTimeout):
        guest.connect(80)
    assert time.monotonic() - begun < 10


def test_an_agent_is_hung_up_on_though_a_forked_process_has_the_connection_too(
    serve: Serve, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[socket.socket] = []
    hung_up = threading.Event()

    def play(wire: Wire) -> None:
        if wire.request() and not wire.request():
            hung_up.set()

    def noted(connection: socket.socket) -> bool:
        copies.append(connection.dup())
        return True

    for half in ("_sync", "_async"):
        monkeypatch.setattr(f"generated_vmm.guest.{half}.link._is_quiet", noted)
    with pytest.raises(GuestAgentTimeout):
        connect(serve(play).path, port=None, timeout=0.3).info()
    assert hung_up.wait(5)
    for copy in copies:
        copy.close()


def test_a_wait_for_an_agent_ends_in_its_own_time(serve: Serve, connect: Start) -> None:
    guest = connect(serve(silent).path, port=None, timeout=60)
    begun = time.monotonic()
    with pytest.raises(GuestAgentTimeout):
        guest.wait_until_ready(0.3)
    assert time.monotonic() - begun < 30


def test_a_time_limit_that_the_agent_ignores_ends_the_call(serve: Serve, connect: Start) -> None:
    server = serve(lying(OUTPUT))
    guest = connect(server.path, port=None, timeout=2)
    with pytest.raises(GuestAgentTimeout, match="has not ended it in time"):
        guest.run(["true"], timeout=0.1)
    assert b'{"signal":9}' in server.requests[-1]


def taking_input_until(last: int, input_bytes: int = 0) -> Play:
    """An agent that takes no input, and says in the last of some exchanges that it has ended.

    It counts `input_bytes` in each of them.
    """
    asked = 0

    def play(wire: Wire) -> None:
        nonlocal asked
        while wire.request():
            asked += wire.latest.startswith(EXCHANGE)
            counted = {"takes_input": asked < last, "input_bytes": asked * input_bytes}
            state = OUTPUT | {"program": PROGRAM | counted}
            wire.send(reply(AGENT if b"/agent " in wire.latest else state))

    return play


def test_input_that_an_agent_does_not_take_does_not_keep_the_host_busy(
    serve: Serve, connect: Start
) -> None:
    server = serve(taking_input_until(10))
    program = connect(server.path, port=None).start(["cat"], stdin=True)
    begun = time.monotonic()
    with pytest.raises(BrokenPipeError):
        program.write(b"x")
    assert time.monotonic() - begun > 8 * 0.05


@pytest.mark.parametrize("input_bytes", [0, 1])
def test_the_end_of_the_input_is_sent_until_the_agent_has_taken_it(
    serve: Serve, connect: Start, input_bytes: int
) -> None:
    server = serve(taking_input_until(4, input_bytes))
    program = connect(server.path, port=None).start(["cat"], stdin=True)
    begun = time.monotonic()
    program.close_input()
    sent = [request for request in server.requests if request.startswith(EXCHANGE)]
    assert [b'"close":true' in request for request in sent] == [False, True, True, True]
    assert input_bytes or time.monotonic() - begun > 2 * 0.05  # it does not keep the host busy


def test_input_that_an_agent_gives_back_does_not_keep_the_host_busy(
    serve: Serve, connect: Start
) -> None:
    server = serve(taking_input_until(10, -1))
    program = connect(server.path, port=None).start(["cat"], stdin=True)
    with pytest.raises(BrokenPipeError):
        program.write(b"x")
    assert len(server.requests) < 20


def test_a_program_has_the_name_that_its_host_gave_it(serve: Serve, connect: Start) -> None:
    server = serve(lying(OUTPUT | {"program": PROGRAM | {"id": "../other", "args": ["rm"]}}))
    guest = connect(server.path, port=None)
    program = guest.start(["true"], id="mine")
    assert (program.id, program.args) == ("mine", ["true"])
    assert guest.attach("mine").id == "mine"


def test_a_start_without_a_response_is_taken_back(serve: Serve, connect: Start) -> None:
    def forgetful(wire: Wire) -> None:
        while wire.request():
            if wire.latest.startswith(START):
                wire.receive()
            wire.send(reply(AGENT if b"/agent " in wire.latest else OUTPUT))

    server = serve(forgetful)
    with pytest.raises(GuestAgentTimeout):
        connect(server.path, port=None, timeout=1).start(["true"])
    assert server.requests[-1].startswith(EXCHANGE)
    assert b'{"signal":9}' in server.requests[-1]


def test_a_file_needs_no_connection_that_may_be_lost_unnoticed(
    serve: Serve, connect: Start
) -> None:
    def once(wire: Wire) -> None:  # as after a resume: the second request has no response
        wire.request()
        wire.send(reply(AGENT))
        wire.request()

    guest = connect(serve(once).path, port=None)
    guest.info()
    assert json.loads(guest.path("/file").read_bytes()) == AGENT
    guest.path("/file").write_bytes(b"x")
    assert guest.info().version == 1
