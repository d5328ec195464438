"""The client: resources onto operations, and the connection they are sent over.

Derived from `generated_vmm/facade/__init__.py` by `make codegen`. Do not edit.
"""

from generated_vmm._generated.async_facade.client import AsyncVmmClient as AsyncVmmClient
