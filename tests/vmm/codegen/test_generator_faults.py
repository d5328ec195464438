"""What openapi-python-client makes of this API as it comes has eighteen faults; none is left.

Each test names one fault of the plain output and shows that ours has it not.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from codegen.document import Unusable
from codegen.generate import generate_package
from codegen.pipeline import described
from generated_vmm._generated import models, operations
from generated_vmm.operation import Operation
from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import PROJECT

NULLS = {
    "balloon": None,
    "drives": [{"drive_id": "a", "is_root_device": True, "socket": None, "io_engine": None}],
    "boot-source": {"kernel_image_path": "/k", "boot_args": None, "initrd_path": None},
    "cpu-config": None,
    "logger": None,
    "machine-config": {"vcpu_count": 1, "mem_size_mib": 128},
    "vsock": None,
}


def sent(operation: Operation[Any]) -> Any:
    assert operation.body is not None
    return json.loads(operation.body)


def sources() -> list[Path]:
    return sorted(PROJECT.package.rglob("*.py"))


def test_1_nulls_in_an_answer_are_read() -> None:
    answer = operations.get_export_vm_config().read(json.dumps(NULLS).encode())
    assert answer.logger is None
    assert answer.drives is not None
    assert answer.drives[0].io_engine is None


def test_2_described_defaults_are_not_sent() -> None:
    machine = models.MachineConfiguration(vcpu_count=2, mem_size_mib=256)
    assert sent(operations.put_machine_configuration(machine)) == {
        "vcpu_count": 2,
        "mem_size_mib": 256,
    }
    drive = models.Drive(drive_id="a", is_root_device=False, socket="/s")
    assert sent(operations.put_guest_drive_by_id("a", drive)) == {
        "drive_id": "a",
        "is_root_device": False,
        "socket": "/s",
    }


def test_3_a_partial_update_of_the_machine_can_be_written() -> None:
    change = models.PartialMachineConfiguration(smt=True)
    assert sent(operations.patch_machine_configuration(change)) == {"smt": True}


@pytest.mark.parametrize(
    "name",
    [
        "put_cpu_configuration",
        "put_machine_configuration",
        "patch_machine_configuration",
        "put_mmds",
        "patch_mmds",
    ],
)
def test_4_a_body_the_monitor_insists_on_has_to_be_given(name: str) -> None:
    body = inspect.signature(getattr(operations, name)).parameters["body"]
    assert body.default is inspect.Parameter.empty


@pytest.mark.parametrize("change", [{"vcpu_count": 99999}, {"mem_size_mib": "x"}])
def test_5_ranges_and_types_are_checked(change: dict[str, Any]) -> None:
    valid = {"vcpu_count": 2, "mem_size_mib": 256}
    models.MachineConfiguration.model_validate(valid)
    with pytest.raises(ValidationError, match=next(iter(change))):
        models.MachineConfiguration.model_validate(valid | change)


def test_6_an_answer_without_a_body_is_none() -> None:
    hints = typing.get_type_hints(operations.put_guest_vsock)
    assert hints["return"] == Operation[None]
    operation = operations.patch_vm(models.Vm(state="Paused"))
    assert operation.read(b"") is None


def test_7_no_generated_code_reads_an_answer_that_is_no_success() -> None:
    assert "Error" not in {name for name in vars(operations) if name[0].isupper()}
    assert not re.search(r"status_code|json\.loads", inspect.getsource(operations))


def test_8_a_missing_field_is_named_and_a_new_value_is_kept() -> None:
    read = operations.describe_instance().read
    answer = {"app_name": "a", "id": "b", "state": "Hibernated", "vmm_version": "2.0.0"}
    assert str(read(json.dumps(answer).encode()).state) == "Hibernated"
    del answer["app_name"]
    with pytest.raises(ValidationError, match="app_name"):
        read(json.dumps(answer).encode())


def test_9_metadata_is_one_model_around_a_dict() -> None:
    assert operations.get_mmds().read(b'{"a": null}').root == {"a": None}
    assert not [name for name in models.__all__ if "Response" in name]


def test_10_values_of_enums_are_written_as_the_monitor_does() -> None:
    pages = models.PartialMachineConfiguration(huge_pages="2M")
    assert sent(operations.patch_machine_configuration(pages)) == {"huge_pages": "2M"}
    assert models.InstanceActionInfo(action_type="SendCtrlAltDel").action_type == "SendCtrlAltDel"


def test_11_operations_are_not_in_a_package_named_default() -> None:
    assert not [path for path in PROJECT.package.rglob("*") if path.name == "default"]
    described_tags = described(PROJECT, PROJECT.description())["paths"]["/drives/{drive_id}"]
    assert described_tags["put"]["tags"] == ["drives"]


def test_12_words_beside_a_reference_are_kept() -> None:
    own = models.RateLimiter.model_fields["bandwidth"].description
    assert own != models.TokenBucket.__doc__
    assert own == "A bucket whose tokens are bytes; no limit when absent."


def test_13_no_word_is_broken_at_its_hyphen() -> None:
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"\w-\s", node.value), path


def test_14_an_untyped_cpu_template_is_a_free_form_object(workshop: Workshop) -> None:
    folder = workshop.get("release_1_7").folder / "models"
    text = (folder / "cpu_config.py").read_text(encoding="utf-8")
    assert "class CpuConfig(ApiDocument[JsonObject])" in text
    assert not list(folder.glob("cpu_config_*"))


def test_15_the_package_is_marked_as_typed() -> None:
    assert (PROJECT.written / "py.typed").exists()


def test_16_only_our_own_rules_format_the_code() -> None:
    config = (PROJECT.root / "codegen" / "config.yml").read_text(encoding="utf-8")
    assert "post_hooks: []" in config
    assert not list(PROJECT.package.rglob(".ruff_cache"))


def test_17_what_the_generator_would_leave_out_is_an_error(tmp_path: Path) -> None:
    document = described(PROJECT, PROJECT.description())
    document["components"]["schemas"]["Vm"]["properties"]["state"]["enum"] = ["Paused", 1]
    with pytest.raises(Unusable, match="Unable to process schema /components/schemas/Vm"):
        generate_package(document, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_18_no_generated_code_makes_an_http_client() -> None:
    generated = [path for path in sources() if "async_facade" not in path.parts]
    assert not [path for path in generated if "httpx" in path.read_text(encoding="utf-8")]
