"""Every status outside 2xx is a VmmApiError, whatever its body; the client works afterwards."""

from __future__ import annotations

import pytest

from generated_vmm import VmmApiError
from tests.vmm.facade.conftest import Run, Serve
from tests.vmm.scripted import NO_CONTENT, Wire, answer

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
