"""The async client has the members of the sync one, with the same arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from generated_vmm import AsyncVmmClient, VmmClient
from generated_vmm._generated import operations
from generated_vmm._generated._sync import resources
from generated_vmm.concurrency._async import Context

RENAMED = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
IMMEDIATE = {"with_options", "drive", "network_interface", "pmem"}


def members(thing: object, prefix: str = "") -> Iterator[tuple[str, list[inspect.Parameter]]]:
    """Every public callable below a client, by its dotted name."""
    for name in sorted(vars(type(thing)).keys() | dir(thing)):
        if name.startswith("_") and name not in {*RENAMED, *RENAMED.values()}:
            continue
        member = getattr(thing, name)
        if getattr(member, "__qualname__", "").startswith(Context.__qualname__):
            continue  # a block of the other kind, which is refused
        if inspect.ismethod(member):
            yield prefix + name, list(inspect.signature(member).parameters.values())
        else:
            yield from members(member, f"{prefix}{name}.")


def with_ids(client: VmmClient | AsyncVmmClient) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    yield from members(client)
    yield from members(client.drive("a"), "drive.")
    yield from members(client.network_interface("a"), "network_interface.")
    yield from members(client.pmem("a"), "pmem.")


def test_both_clients_have_the_same_members() -> None:
    sync = {RENAMED.get(name, name): taken for name, taken in with_ids(VmmClient("/s"))}
    assert sync == dict(with_ids(AsyncVmmClient("/s")))


def test_exactly_the_calls_are_awaited() -> None:
    client = AsyncVmmClient("/s")
    immediate = {
        name
        for name, _ in members(client)
        if "." not in name and not inspect.iscoroutinefunction(getattr(client, name))
    }
    assert immediate == IMMEDIATE


def test_every_generated_operation_has_a_member() -> None:
    made = {
        name
        for name, function in vars(operations).items()
        if callable(function) and function.__module__ == operations.__name__
    }
    used = {
        name
        for _, resource in inspect.getmembers(resources, inspect.isclass)
        for _, member in inspect.getmembers(resource, inspect.isfunction)
        for name in member.__code__.co_names
    }
    assert made <= used
