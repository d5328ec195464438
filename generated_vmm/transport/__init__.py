"""The hand-written way to the monitor: channels over one unix-socket connection each."""

from importlib import import_module
from typing import TYPE_CHECKING

from generated_vmm.transport.blocking import UnixChannel as UnixChannel
from generated_vmm.transport.calls import DEFAULT_MAX_BODY_BYTES as DEFAULT_MAX_BODY_BYTES
from generated_vmm.transport.calls import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
from generated_vmm.transport.calls import CallSettings as CallSettings
from generated_vmm.transport.channels import AsyncChannel as AsyncChannel
from generated_vmm.transport.channels import Channel as Channel
from generated_vmm.transport.channels import async_channel_to as async_channel_to
from generated_vmm.transport.channels import channel_to as channel_to
from generated_vmm.transport.failure import CallFailed as CallFailed
from generated_vmm.transport.vsock import VsockConnection as VsockConnection
from generated_vmm.transport.vsock import connect_vsock as connect_vsock
from generated_vmm.transport.wire import DEFAULT_MAX_ANSWER_BYTES as DEFAULT_MAX_ANSWER_BYTES
from generated_vmm.transport.wire import HttpAnswer as HttpAnswer

if TYPE_CHECKING:
    from generated_vmm.transport.async_vsock import AsyncVsockConnection as AsyncVsockConnection
    from generated_vmm.transport.async_vsock import async_connect_vsock as async_connect_vsock
    from generated_vmm.transport.asynchronous import AsyncUnixChannel as AsyncUnixChannel
else:
    # asyncio is slow to import and only some programs need it.
    _MODULES = {
        "AsyncUnixChannel": "asynchronous",
        "AsyncVsockConnection": "async_vsock",
        "async_connect_vsock": "async_vsock",
    }

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
