"""The client: resources onto operations, and the connection they are sent over."""

from generated_vmm.facade.client import VmmClient as VmmClient
