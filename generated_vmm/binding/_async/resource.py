"""Sending operations: the base of the client and of its generated resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from generated_vmm.misuse import Told
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import AsyncChannel, CallFailed, CallSettings


class AsyncSender:
    """Sends operations over one channel, with the settings of one client."""

    def __init__(self, settings: CallSettings, channel: AsyncChannel) -> None:
        self.settings = settings
        self.channel = channel

    async def send(self, operation: Operation[Answer], own_limit: float | None = None) -> Answer:
        """Sends the operation, and returns the value in the response; raises `VmmError`.

        `own_limit` in seconds replaces the default timeout, not one that the caller has chosen.
        """
        settings = self.settings.limited(own_limit)
        settings.check(operation)
        try:
            answer = await self.channel.exchange(operation, settings.timeout)
        except CallFailed as failed:
            raise settings.error_of(operation, failed) from failed.__cause__
        return settings.value_of(operation, answer)

    async def close(self) -> None:
        """Closes the channel."""
        await self.channel.close()


class AsyncResource(Told):
    """A part of the microVM, as a member of a client; `_ids` are those in its paths."""

    __slots__ = ("_ids", "_sender")
    _sender: AsyncSender
    _ids: tuple[str, ...]
    _elsewhere: ClassVar[Mapping[str, str]] = {"get show": "vm.vm_config.get() has all devices"}

    def __init__(self, sender: AsyncSender, *ids: str) -> None:
        object.__setattr__(self, "_sender", sender)
        object.__setattr__(self, "_ids", ids)

    def __repr__(self) -> str:
        ids = "".join(f" {each!r}" for each in self._ids)
        return f"<{type(self).__name__}{ids} of {self._sender.settings.socket_path}>"

    if not TYPE_CHECKING:  # which reports this itself

        def __call__(self, *_, **__):
            """Raises TypeError for a part of the microVM, which has calls."""
            calls = [name for name in dir(type(self)) if not name.startswith("_")]
            raise TypeError(f"{type(self).__name__} is not callable: it has {', '.join(calls)}")

        def __setattr__(self, name, value):
            """Raises AttributeError for a part of the microVM, which only calls change."""
            if name == "timeout":
                message = "timeout cannot be assigned: with_options(timeout=...) returns a client"
                raise AttributeError(message, name=name, obj=self)
            try:
                super().__setattr__(name, value)
            except AttributeError:
                part = getattr(self, name, self)
                place = f"{name}." if part is not self else ""
                calls = [f"{place}{call}(...)" for call in ("set", "update") if hasattr(part, call)]
                instead = f"; call {' or '.join(calls)}" if calls else ""
                message = f"{name} cannot be assigned: only calls change a microVM{instead}"
                raise AttributeError(message, name=name, obj=self) from None

    async def _send(self, operation: Operation[Answer], own_limit: float | None = None) -> Answer:
        return await self._sender.send(operation, own_limit)
