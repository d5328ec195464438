"""Any bytes at all give a fault message, and a proper fault is read exactly."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from generated_vmm.transport.calls import fault_message_in


@given(st.binary(max_size=200))
def test_any_body_is_readable(body: bytes) -> None:
    assert isinstance(fault_message_in(body), str)


@given(st.text())
def test_a_fault_of_the_monitor_is_exact(text: str) -> None:
    assert fault_message_in(json.dumps({"fault_message": text}).encode()) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\\")))
def test_an_error_of_the_http_layer_is_exact_though_it_is_no_json(text: str) -> None:
    assert fault_message_in(f'{{ "error": "{text}" }}'.encode()) == text
