"""Transports to a monitor: channels over one unix-socket connection each, or of the caller.

Written once, in `_async`; `_sync` is derived from it by `make codegen`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from generated_vmm.transport._sync.unix import Channel as Channel
from generated_vmm.transport._sync.unix import UnixChannel as UnixChannel
from generated_vmm.transport.calls import DEFAULT_MAX_BODY_BYTES as DEFAULT_MAX_BODY_BYTES
from generated_vmm.transport.calls import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT
from generated_vmm.transport.calls import CallFailed as CallFailed
from generated_vmm.transport.calls import CallSettings as CallSettings
from generated_vmm.transport.calls import HttpAnswer as HttpAnswer
from generated_vmm.transport.connection import Connect as Connect
from generated_vmm.transport.http import DEFAULT_MAX_ANSWER_BYTES as DEFAULT_MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from generated_vmm.transport._async.unix import AsyncChannel as AsyncChannel
    from generated_vmm.transport._async.unix import AsyncUnixChannel as AsyncUnixChannel
else:
    # asyncio is slow to import, and only some programs need them.
    def __getattr__(name):
        if name not in ("AsyncChannel", "AsyncUnixChannel"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}._async.unix"), name)
