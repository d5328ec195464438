"""The client: resources onto operations, and the connection they are sent over.

Written once, in `_async`; `_sync` is derived from it by `make codegen`.
"""

from typing import TYPE_CHECKING

from generated_vmm.facade._sync.client import VmmClient as VmmClient

if TYPE_CHECKING:
    from generated_vmm.facade._async.client import AsyncVmmClient as AsyncVmmClient
else:

    def __getattr__(name):
        """asyncio is slow to import and only some programs need it."""
        if name != "AsyncVmmClient":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from generated_vmm.facade._async.client import AsyncVmmClient

        return AsyncVmmClient
