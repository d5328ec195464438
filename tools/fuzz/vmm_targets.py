"""What a monitor answers, and what its release describes."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from codegen.document import Unusable
from codegen.import_spec import import_spec
from generated_vmm._generated import operations
from generated_vmm.errors import VmmError
from generated_vmm.transport import CallFailed
from generated_vmm.transport.calls import CallSettings
from generated_vmm.transport.http import AnswerParser

LIMIT: Final = 10_000
SETTINGS: Final = CallSettings("/run/monitor.socket")
READS: Final = (
    operations.get_export_vm_config(),
    operations.get_machine_configuration(),
    operations.describe_balloon_stats(),
    operations.get_mmds(),
)


def monitor_answer(data: bytes) -> None:
    """The bytes of an answer, whole and octet by octet: both read the same."""
    whole = _read([data])
    assert whole == _read([data[place : place + 1] for place in range(len(data))])


def description(data: bytes) -> None:
    """A release's description of its API."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "description.yaml"
        path.write_bytes(data)
        with suppress(Unusable), warnings.catch_warnings():
            warnings.simplefilter("error")  # one would show parts of the file
            import_spec(path)


def _read(parts: list[bytes]) -> tuple[int, bytes] | None:
    """Status and body of the answer that is given to operations; None when there is none."""
    parser = AnswerParser(LIMIT)
    try:
        if not any(parser.feed(part) for part in parts if part) and not parser.feed(b""):
            return None
    except CallFailed:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a monitor may call an operation deprecated
        for operation in READS:
            with suppress(VmmError):
                SETTINGS.value_of(operation, parser)
    return parser.status_code, parser.content
