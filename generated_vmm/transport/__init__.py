"""The hand-written way to the monitor: httpx transports over one unix-socket connection each."""

from generated_vmm.transport.asynchronous import AsyncUnixTransport as AsyncUnixTransport
from generated_vmm.transport.blocking import UnixTransport as UnixTransport
from generated_vmm.transport.calls import DEFAULT_MAX_BODY_BYTES as DEFAULT_MAX_BODY_BYTES
from generated_vmm.transport.calls import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
from generated_vmm.transport.calls import CallSettings as CallSettings
from generated_vmm.transport.vsock import AsyncVsockConnection as AsyncVsockConnection
from generated_vmm.transport.vsock import VsockConnection as VsockConnection
from generated_vmm.transport.vsock import async_connect_vsock as async_connect_vsock
from generated_vmm.transport.vsock import connect_vsock as connect_vsock
from generated_vmm.transport.wire import DEFAULT_MAX_ANSWER_BYTES as DEFAULT_MAX_ANSWER_BYTES
from generated_vmm.transport.wire import async_body_of as async_body_of
from generated_vmm.transport.wire import body_of as body_of
