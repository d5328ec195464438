"""The hand-written way to the monitor: httpx transports over one unix-socket connection each."""

from .asynchronous import AsyncUnixTransport as AsyncUnixTransport
from .blocking import UnixTransport as UnixTransport
from .calls import DEFAULT_MAX_BODY_BYTES as DEFAULT_MAX_BODY_BYTES
from .calls import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
from .calls import CallSettings as CallSettings
from .wire import DEFAULT_MAX_ANSWER_BYTES as DEFAULT_MAX_ANSWER_BYTES
from .wire import async_body_of as async_body_of
from .wire import body_of as body_of
