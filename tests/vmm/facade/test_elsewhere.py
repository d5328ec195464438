"""Calls of other clients, and what is no path of a socket, say what to write here."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from generated_vmm import AsyncVmmClient, VmmClient
from generated_vmm.facade import elsewhere
from generated_vmm.testing import SimulatedMonitor

KINDS = [VmmClient, AsyncVmmClient]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", elsewhere._HERE)
def test_a_name_of_another_client_leads_to_a_member(name: str, kind: type[VmmClient]) -> None:
    client = kind("vm.socket")
    with pytest.raises(AttributeError, match=f"{kind.__name__} has no member '{name}': ") as caught:
        getattr(client, name)
    for member in re.findall(r"\bvm\.(\w+)", str(caught.value)):
        assert hasattr(client, member)


@pytest.mark.parametrize("kind", KINDS)
def test_any_other_name_is_missing(kind: type[VmmClient]) -> None:
    with pytest.raises(AttributeError, match=r"has no member 'fly'$"):
        getattr(kind("vm.socket"), "fly")  # noqa: B009


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("http://localhost:8080", ValueError, "not a URL: 'http://local"),
        ("unix:/run/vm.sock", ValueError, "without unix: before it"),
        ("~/vm.sock", ValueError, "os.path.expanduser"),
        ("127.0.0.1:8080", ValueError, "not an address"),
        (8080, TypeError, "not of type int$"),
        (SimulatedMonitor("vm.sock"), TypeError, "not of type SimulatedMonitor: pass its socket_p"),
    ],
)
def test_what_is_no_path_of_a_socket(
    kind: Callable[[object], object], path: object, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=f"socket_path is the path of a unix socket, .*{said}"):
        kind(path)


@pytest.mark.parametrize("path", ["vm:1/x.sock", "./unix:x", "a~"])
def test_a_path_may_have_any_characters(path: str) -> None:
    assert repr(VmmClient(path)) == f"VmmClient({path!r}, timeout=5.0)"
