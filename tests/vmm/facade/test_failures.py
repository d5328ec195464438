"""A call without a proper answer says which socket, which operation, how long, what is known."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm import Operation, VmmApiError, VmmConnectionError, VmmError, VmmProtocolError
from tests.vmm.facade.conftest import Run, Serve
from tests.vmm.scripted import NO_CONTENT, Wire, answer

INFO = b'{"app_name":"a","id":"b","state":"Running","vmm_version":"1"}'
ACTED = "the monitor may have carried the call out"
UNREADABLE = {
    "no JSON": (b"<html>", "what was asked for: Invalid JSON: "),
    "nothing": (b"", f"what was asked for: Invalid JSON: .*; {ACTED}"),
    "another shape": (
        b"[]",
        ": the 200 response is not what was asked for: Input should be an object",
    ),
    "two fields missing": (
        b'{"app_name":"a","id":"b"}',
        f"what was asked for: state: Field required; vmm_version: Field required; {ACTED}$",
    ),
    "a wrong type": (
        INFO.replace(b'"1"', b"1"),
        "is not what was asked for: vmm_version: Input should be a valid string",
    ),
}


def check_message(error: VmmError, path: Path) -> None:
    assert str(error).startswith(f"describeInstance (GET /) on {path}: ")
    assert error.operation is not None
    assert error.operation.id == "describeInstance"


@pytest.mark.parametrize(("body", "text"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_answer_of_another_shape_is_a_protocol_error(
    run_each: Run, serve: Serve, socket_path: Path, body: bytes, text: str
) -> None:
    serve(lambda wire: wire.answer_all(answer(200, body)))
    with pytest.raises(VmmProtocolError, match=text) as caught:
        run_each(lambda vm: vm.get_instance_info())
    check_message(caught.value, socket_path)


def test_a_field_deep_inside_is_named_by_its_path(run: Run, serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(answer(200, b'{"drives": [{"is_root_device": true}]}')))
    with pytest.raises(VmmProtocolError, match=r": drives\.0\.drive_id: Field required"):
        run(lambda vm: vm.vm_config.get())


def test_why_an_operation_of_ones_own_cannot_read_its_answer_is_told(
    run_each: Run, serve: Serve
) -> None:
    serve(lambda wire: wire.answer_all(answer(200, b"many")))
    own = Operation("count", "GET", "/count", None, int)
    why = r"the 200 response is not what was asked for: invalid literal for int\(\) .*b'many'"
    with pytest.raises(VmmProtocolError, match=rf"^count \(GET /count\) on .*: {why}; {ACTED}$"):
        run_each(lambda vm: vm.send(own))


def test_what_an_unreadable_answer_held_is_not_repeated(run_each: Run, serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(answer(200, b'{"app_name": "s3cret"}')))
    with pytest.raises(VmmProtocolError) as caught:
        run_each(lambda vm: vm.get_instance_info())
    assert "s3cret" not in str(caught.value)


def test_an_answer_where_none_belongs_is_no_error(run_each: Run, serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(answer(200, b"{}")))
    assert run_each(lambda vm: vm.pause()) is None


@pytest.fixture
def no_descriptors() -> Iterator[None]:
    """A process that may not open one file more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest_free:
        number = lowest_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_no_file_descriptor_left(run_each: Run, socket_path: Path, no_descriptors: None) -> None:
    with pytest.raises(
        VmmConnectionError, match=r"no connection: .*Too many open files; nothing was sent"
    ) as caught:
        run_each(lambda vm: vm.get_instance_info())
    assert not caught.value.permanent


# Every status outside 2xx is a VmmApiError, whatever its body; the client works afterwards


DROPPED = "All previous unanswered requests will be dropped."
REFUSALS = {
    "a fault": (answer(400, b'{"fault_message":"No \\"x\\"."}'), 400, 'No "x".'),
    "the HTTP layer, with a raw line break": (
        answer(400, f'{{ "error": "Bad.\n{DROPPED}" }}'.encode()),
        400,
        f"Bad.\n{DROPPED}",
    ),
    "the HTTP layer, as JSON": (answer(503, b'{ "error": "Too many" }'), 503, "Too many"),
    "text": (answer(500, b" Internal error \n"), 500, "Internal error"),
    "other JSON": (answer(400, b"[1]"), 400, "[1]"),
    "a fault that is no text": (answer(400, b'{"fault_message":5}'), 400, '{"fault_message":5}'),
    "no UTF-8": (answer(400, b"\xff"), 400, "\ufffd"),
    "deeply nested": (answer(400, b"[" * 100_000), 400, "[" * 100_000),
    "huge": (answer(400, b'{"fault_message":"' + b"x" * 200_000 + b'"}'), 400, "x" * 200_000),
    "nothing": (b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n", 500, ""),
    "a redirect": (answer(302, b""), 302, ""),
    "a status nobody knows": (answer(599, b"?"), 599, "?"),
}


@pytest.mark.parametrize(("sent", "status", "fault"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_has_status_fault_and_operation(
    run: Run, serve: Serve, sent: bytes, status: int, fault: str
) -> None:
    def play(wire: Wire) -> None:
        while wire.request():
            wire.send(sent if wire.latest.startswith(b"PUT /boot-source") else NO_CONTENT)

    server = serve(play)
    with pytest.raises(VmmApiError) as caught:
        run(lambda vm: vm.boot_source.set(kernel_image_path="/k"))
    assert (caught.value.status_code, caught.value.fault_message) == (status, fault)
    assert caught.value.operation.id == "putGuestBootSource"
    run(lambda vm: vm.pause())
    assert [line for line, _ in server.sent()] == ["PUT /boot-source", "PATCH /vm"]
