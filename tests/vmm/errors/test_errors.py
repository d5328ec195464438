"""What the errors are, what they carry, and that they travel between processes."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated_vmm import (
    BootSource,
    VmmApiError,
    VmmConnectionError,
    VmmError,
    VmmProtocolError,
    VmmRequestTooLarge,
    VmmTimeoutError,
)
from generated_vmm._generated.operations import describe_instance, get_mmds, put_guest_boot_source
from generated_vmm.transport.calls import fault_message_in

OPERATION = put_guest_boot_source(BootSource(kernel_image_path="/secret"))
KINDS = [VmmError, VmmConnectionError, VmmTimeoutError, VmmProtocolError, VmmRequestTooLarge]


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (VmmConnectionError, ConnectionError),
        (VmmTimeoutError, TimeoutError),
        (VmmRequestTooLarge, ValueError),
    ],
)
def test_an_error_is_also_what_python_calls_it(
    kind: type[VmmError], builtin: type[Exception]
) -> None:
    assert issubclass(kind, VmmError)
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_its_message(kind: type[VmmError]) -> None:
    error = kind("what happened", OPERATION)
    assert str(error) == "what happened"
    assert repr(error) == f"{kind.__name__}('what happened')"
    assert error.operation is OPERATION


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", [None, OPERATION, describe_instance(), get_mmds()], ids=str)
def test_an_error_survives_pickle_and_copy(kind: type[VmmError], operation: object) -> None:
    error = kind("what happened", operation)  # type: ignore[arg-type]  # None or one of several
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert (str(twin), twin.operation) == ("what happened", operation)


def test_an_api_error_survives_pickle() -> None:
    twin = pickle.loads(pickle.dumps(VmmApiError(400, "no", OPERATION)))
    assert (twin.status_code, twin.fault_message, twin.operation) == (400, "no", OPERATION)
    assert str(twin) == "putGuestBootSource (PUT /boot-source): 400 no"


def test_an_api_error_shows_the_start_of_a_long_fault_on_one_line() -> None:
    error = VmmApiError(400, "a\nb" + "x" * 10_000, OPERATION)
    assert str(error).startswith("putGuestBootSource (PUT /boot-source): 400 a bxxx")
    assert len(str(error)) < 600
    assert len(repr(error)) < 600
    assert len(error.fault_message) == 10_003


def test_an_api_error_without_a_fault_is_its_status() -> None:
    error = VmmApiError(500, "", OPERATION)
    assert str(error) == "putGuestBootSource (PUT /boot-source): 500"
    assert repr(error) == "VmmApiError(500, '', putGuestBootSource (PUT /boot-source))"


@pytest.mark.parametrize(
    "error", [VmmApiError(400, "no", OPERATION), VmmTimeoutError("late", OPERATION)]
)
def test_the_body_that_was_sent_is_not_shown(error: VmmError) -> None:
    assert "secret" not in f"{error} {error!r} {error.operation} {error.operation!r}"


# Any bytes at all give a fault message, and a proper fault is read exactly


@given(st.binary(max_size=200))
def test_any_body_is_readable(body: bytes) -> None:
    assert isinstance(fault_message_in(body), str)


@given(st.text())
def test_a_fault_of_the_monitor_is_exact(text: str) -> None:
    assert fault_message_in(json.dumps({"fault_message": text}).encode()) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters='\\"')))
def test_an_error_of_the_http_layer_is_exact_though_line_breaks_are_not_escaped(text: str) -> None:
    assert fault_message_in(f'{{ "error": "{text}" }}'.encode()) == text
