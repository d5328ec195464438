"""The handshake ends within its time, whatever signals arrive."""

from __future__ import annotations

import time

import pytest

from generated_vmm import VmmTimeoutError
from tests.vmm.scripted import Wire
from tests.vmm.transport.test_signals import GIVEN_UP, TIMEOUT, signals
from tests.vmm.vsock.conftest import Connect, Serve


def silent(wire: Wire) -> None:
    while wire.receive():
        pass


def test_silence_ends_with_the_time_all_the_same(connect: Connect, serve: Serve) -> None:
    serve(silent)
    began = time.monotonic()
    with signals(), pytest.raises(VmmTimeoutError):
        connect(52, TIMEOUT)
    assert time.monotonic() - began < GIVEN_UP / 2
