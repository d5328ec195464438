"""The hand-written way to the monitor: channels over one unix-socket connection each."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from generated_vmm.transport.async_vsock import AsyncVsockConnection as AsyncVsockConnection
    from generated_vmm.transport.async_vsock import async_connect_vsock as async_connect_vsock
else:

    def __getattr__(name):
        """asyncio is slow to import and only some programs need it."""
        if name not in ("AsyncVsockConnection", "async_connect_vsock"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from generated_vmm.transport import async_vsock

        return getattr(async_vsock, name)
