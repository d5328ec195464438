"""What is waited for at a monitor's beginning and end, the same for threads and for tasks.

Each function here is a generator of steps. A step is a call that waits: `taken` makes it, and
`async_taken` makes it and awaits what it gives; its value or its error comes back to the generator.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeAlias

from generated_vmm.errors import VmmApiError, VmmError, VmmProtocolError
from generated_vmm.facade import AsyncVmmClient, VmmClient
from generated_vmm.process.base import Ending
from generated_vmm.process.child import Child
from generated_vmm.process.process import Process

Client: TypeAlias = VmmClient | AsyncVmmClient
Wait: TypeAlias = Callable[[Child, float], Any]
"""`Child.wait` or `Child.async_wait`."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two looks for an answer

Steps: TypeAlias = Generator[Callable[[], Any], Any, None]


def until_ready(process: Process, client: Client, wait: Wait) -> Steps:
    """The socket answers; raises what `Process.require_starting` does when it never will."""
    deadline, last = time.monotonic() + process.place.settings.timeout, None
    pause = SHORTEST_PAUSE
    while True:
        process.require_starting(deadline, last)
        try:
            yield client.get_instance_info
            return
        except VmmError as error:
            last = error
        yield partial(wait, process.child, pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def guest_ended(process: Process, client: Client, wait: Wait, grace: float) -> Steps:
    """A guest that runs has had Ctrl+Alt+Del and `grace` seconds."""
    with contextlib.suppress(VmmError):  # it hangs, or has just ended
        with contextlib.suppress(VmmApiError, VmmProtocolError):  # of another version
            process.note_vsock_of((yield client.vm_config.get))
        if grace and (yield client.get_instance_info).state == "Running":
            yield partial(client.action, "SendCtrlAltDel")
            yield partial(wait, process.child, grace)


def ended(process: Process, wait: Wait, ending: Ending) -> Steps:
    """The process has ended by one of the signals; raises MonitorError when by none."""
    for number, seconds in ending:
        if process.is_running:
            process.child.send_signal(number)
            yield partial(wait, process.child, seconds)
    process.require_ended()


def taken(steps: Steps) -> None:
    """Take all steps."""
    with contextlib.suppress(StopIteration):
        step = next(steps)
        while True:
            try:
                value = step()
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)


async def async_taken(steps: Steps) -> None:
    """Take all steps, awaited."""
    with contextlib.suppress(StopIteration):
        step = next(steps)
        while True:
            try:
                value = await step()
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
