"""A generated package that cannot be used does not take the place of one that can."""

import re
import shutil
from pathlib import Path

import pytest

from codegen.document import TEACH, Unusable
from codegen.generate import ADAPT, try_out
from tests.releases.renames import LAYERS, WORKS, remove_announced, rename, tried
from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import PROJECT, committed, write
from tests.vmm.codegen.releases import all_shapes, release
from tests.vmm.codegen.trials import faults_of
from tests.vmm.simulator.conftest import IS_OLDER

CACHE = PROJECT.mypy_cache
HARM = {
    "no Python": ("_generated/operations.py", "def (", r"operations\.py:\d+: SyntaxError"),
    "a warning": (
        "_generated/models/vm.py",
        "\nimport warnings\nwarnings.warn('odd')\n",
        r"vm\.py:\d+: UserWarning: odd",
    ),
    "a pattern that pydantic cannot check": (
        "_generated/models/vm.py",
        "\nclass Other(ApiModel):\n    name: str = Field(pattern='(?=a)')\n",
        r"vm\.py:\d+: .*look-around",
    ),
    "a call that is not awaited": (
        "facade/_sync/client.py",
        "\nasync def f() -> None: ...\nasync def g() -> None:\n    f()\n",
        r"client\.py:\d+: .*coroutine",
    ),
}


@pytest.mark.parametrize(("name", "added", "fault"), HARM.values(), ids=HARM)
def test_a_package_that_does_not_work_is_refused(
    name: str, added: str, fault: str, tmp_path: Path
) -> None:
    for part in PROJECT.parts:
        source = PROJECT.written / part
        shutil.copytree(source, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / name).open("a", encoding="utf-8") as module:
        module.write(added)
    with pytest.raises(Unusable, match=fault) as caught:
        try_out(tmp_path, PROJECT.parts, PROJECT.written, CACHE)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(TEACH)


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("path_on_host", r"generated_vmm/facade/boot\.py:\d+: .*argument \"path_on_host\""),
        ("partuuid", r"examples/console/changes/setup\.py:\d+: TypeError: Drive has no partuuid"),
    ],
    ids=["the written half", "the console"],
)
def test_a_name_that_is_used_and_no_model_has_is_refused_at_its_line(
    workshop: Workshop, tmp_path: Path, field: str, line: str
) -> None:
    document = committed()
    rename(document, "Drive", field)
    made = workshop.make(PROJECT, write(document, tmp_path), tmp_path / "made")
    with pytest.raises(Unusable, match=f"^{line}.*{ADAPT}$") as caught:
        try_out(made.folder, PROJECT.parts, PROJECT.written, CACHE)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(IS_OLDER, reason="not every call of the client is one of an older monitor")
def test_the_removals_that_are_announced_need_no_edit() -> None:
    result = tried("announced", remove_announced)
    assert result.said == dict.fromkeys(("codegen", *LAYERS), WORKS)


# With those shapes, every release whose description is unlike that of the one before.
DIFFERENT = ("1.10.0", "1.12.0", "1.13.0", "1.15.0")
# The oldest and the newest: what the layers and the console use of those between is in one of them.
CONSOLES = ("release_1_7", "release_1_17")


@pytest.mark.timeout(900)  # mypy reads all of them, which a busy computer takes minutes for
def test_every_published_release_and_every_shape_gives_a_package_that_works(
    workshop: Workshop, tmp_path: Path
) -> None:
    made = {
        version.replace(".", "_"): workshop.of(release(version), version) for version in DIFFERENT
    }
    made |= {re.sub(r"\W", "_", shape): workshop.get(shape).run.folder for shape in all_shapes()}
    made["broken"] = shutil.copytree(made["committed"], tmp_path / "broken")
    with (made["broken"] / "_generated" / "operations.py").open("a") as module:
        module.write("x: int = 'a'\n")
    folder = tmp_path / "all"
    folder.mkdir()
    faults = faults_of(made, CONSOLES, folder)
    [fault] = faults
    assert fault.startswith("vmm_broken/_generated/operations.py:")
