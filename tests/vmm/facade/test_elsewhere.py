"""Calls of other clients, and a URL in place of a socket, say what to write here."""

from __future__ import annotations

import re

import pytest

from generated_vmm import AsyncVmmClient, VmmClient
from generated_vmm.facade import elsewhere

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
def test_a_url_is_no_socket(kind: type[VmmClient]) -> None:
    with pytest.raises(ValueError, match="the path of a unix socket, not a URL: 'http://local"):
        kind("http://localhost:8080")
