"""The hand-written way to the monitor: httpx transports over one unix-socket connection each."""

from .asynchronous import AsyncUnixTransport as AsyncUnixTransport
from .blocking import UnixTransport as UnixTransport
from .calls import DEFAULT_MAX_BODY_BYTES as DEFAULT_MAX_BODY_BYTES
from .calls import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
from .calls import CallSettings as CallSettings
from .vsock import AsyncVsockConnection as AsyncVsockConnection
from .vsock import VsockConnection as VsockConnection
from .vsock import async_connect_vsock as async_connect_vsock
from .vsock import connect_vsock as connect_vsock
from .wire import DEFAULT_MAX_ANSWER_BYTES as DEFAULT_MAX_ANSWER_BYTES
from .wire import async_body_of as async_body_of
from .wire import body_of as body_of
