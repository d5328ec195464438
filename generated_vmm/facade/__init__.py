"""The client: its resources, and the channel over which their operations are sent.

Written once, in `_async`; `_sync` is derived from it by `make codegen`.
"""

from typing import TYPE_CHECKING

from generated_vmm.facade._sync.client import VmmClient as VmmClient

if TYPE_CHECKING:
    from generated_vmm.facade._async.client import AsyncVmmClient as AsyncVmmClient
else:

    def __getattr__(name):
        """Imports the async half at its first use: asyncio is slow to import."""
        if name != "AsyncVmmClient":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from generated_vmm.facade._async.client import AsyncVmmClient

        return AsyncVmmClient
