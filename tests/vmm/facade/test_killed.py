"""A monitor process that is killed while it has a call in hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from generated_vmm import VmmConnectionError
from tests.vmm.facade.conftest import Run

DIES_ON_REQUEST = """
import os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("ready", flush=True)
    listener.accept()[0].recv(65536)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_call_fails_at_once_and_so_does_the_next(run_each: Run, socket_path: Path) -> None:
    command = [sys.executable, "-c", DIES_ON_REQUEST, str(socket_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as monitor:
        assert monitor.stdout is not None
        assert monitor.stdout.readline() == b"ready\n"
        with pytest.raises(VmmConnectionError, match=r"connection lost: .*may have carried"):
            run_each(lambda vm: vm.action("InstanceStart"))
        assert monitor.wait() == -9
        with pytest.raises(VmmConnectionError, match="refused; nothing was sent"):
            run_each(lambda vm: vm.action("InstanceStart"))
