"""The command line: what it prints, what it changes, how it ends."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from codegen.__main__ import main
from codegen.document import Unusable
from codegen.pipeline import make
from generated_vmm import API_VERSION
from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import PROJECT, ROOT, reference, swagger, write
from tests.vmm.codegen.releases import release, release_1_17


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what codegen reads and writes."""
    root = tmp_path / "project"
    for name in ("openapi", "generated_vmm", "docs/vmm"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.fixture(autouse=True)
def _made_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What these runs make is made once, and tried in `test_trial`; `test_recovery` runs it all."""
    monkeypatch.setattr("codegen.__main__.make", workshop.make)
    monkeypatch.setattr("codegen.__main__.try_out", lambda *_: None)


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_regenerating_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(project)
    assert main([], root=project) == 0
    assert files(project) == before
    assert f"firecracker {API_VERSION}: " in capsys.readouterr().out


def test_a_check_names_every_kind_of_difference(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = project / "generated_vmm" / "_generated"
    (package / "operations.py").write_text("edited", encoding="utf-8")
    (package / "models" / "drive.py").unlink()
    (package / "models" / "left.py").write_text("", encoding="utf-8")
    (project / "docs" / "vmm" / "members.md").write_text("edited", encoding="utf-8")
    with next((project / "openapi").glob("firecracker-*")).open("a") as description:
        description.write("# a remark\n")
    before = files(project)
    assert main(["--check"], root=project) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [
        f"missing: {package / 'models/drive.py'}",
        f"left over: {package / 'models/left.py'}",
        f"differs: {package / 'operations.py'}",
        f"differs: {project / 'docs/vmm/members.md'}",
        f"differs: {project / 'openapi' / PROJECT.description().name}",
    ]
    assert files(project) == before


def test_another_release_takes_the_place_of_the_one_before(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(release_1_17(), tmp_path)
    assert main(["--spec", str(spec)], root=project) == 0
    assert "firecracker 1.17.0: 41 operations, 46 schemas" in capsys.readouterr().out
    described = [path.name for path in (project / "openapi").glob("firecracker-*")]
    assert described == ["firecracker-1.17.0.yaml"]
    assert main(["--check"], root=project) == 0


def test_a_new_operation_is_told_with_the_lines_to_write(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = release_1_17()
    document["paths"]["/clock"] = {
        "get": document["paths"]["/machine-config"]["get"] | {"operationId": "getClock"}
    }
    assert main(["--spec", str(write(document, tmp_path))], root=project) == 0
    said = capsys.readouterr().out
    assert "client: GET /clock (getClock) has no member; `vm.send(operations.get_clock(" in said
    assert "+ GET /clock: member none, answers MachineConfiguration" in said
    page = (project / "docs" / "vmm" / "members.md").read_text(encoding="utf-8")
    assert "- `GET /clock` (`getClock`)" in page
    assert "| `getClock`" not in page


def test_a_description_that_is_broken_can_be_replaced(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codegen.__main__.make", make)
    (found,) = (project / "openapi").glob("firecracker-*")
    found.write_text("broken", encoding="utf-8")
    assert main(["--spec", str(write(release_1_17(), tmp_path))], root=project) == 0


def test_an_older_release_says_what_the_client_loses(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--spec", str(write(release("1.7.0"), tmp_path))], root=project) == 0
    said = capsys.readouterr().out.splitlines()
    assert "client: pmem(id).set is not in 1.7.0" in said
    assert "overlay: $.components.schemas.Pmem is for 1.14.0 and later" in said
    assert not [line for line in said if "Pmem.properties" in line]
    assert "fix-up hinting_status: nothing in 1.7.0 to apply it to" in said
    assert "fix-up cpu_config: repaired 1 (CpuConfig)" in said


def test_another_folder_leaves_the_project_alone(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, out = files(project), tmp_path / "out"
    spec = write(release_1_17(), tmp_path)
    assert main(["--spec", str(spec), "--out", str(out)], root=project) == 0
    assert files(project) == before
    said = capsys.readouterr().out
    for name in ("_generated", "firecracker-1.17.0.yaml", "members.md"):
        assert (out / name).exists()
        assert f"made {out / name}\n" in said


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    assert main(["--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"codegen: {tmp_path}: not an empty folder\n"


def test_unusable_input_changes_nothing(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(project)
    document = swagger()
    document["paths"]["/actions"]["put"]["security"] = []
    spec = write(document, tmp_path)
    assert main(["--spec", str(spec)], root=project) == 2
    assert capsys.readouterr().err == (
        f"codegen: {spec}:1: #/paths/~1actions/put/security: "
        "'security' is not a construct this importer knows; leave it out of a copy of the "
        "description, or teach codegen to generate it\n"
    )
    assert files(project) == before


@pytest.mark.parametrize("count", [0, 2])
def test_without_a_spec_there_has_to_be_one_description(
    count: int, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (project / "openapi").glob("firecracker-*"):
        path.unlink()
    for number in range(count):
        write(reference(), project / "openapi", f"firecracker-1.{number}.0")
    assert main([], root=project) == 2
    assert "expected one firecracker-*.yaml, found " in capsys.readouterr().err


def test_a_generator_that_fails_is_an_error_of_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(project)
    monkeypatch.setattr("codegen.__main__.make", make)
    monkeypatch.setattr("codegen.generate.HERE", project / "nowhere")
    assert main([], root=project) == 2
    error = capsys.readouterr().err
    assert error.startswith("codegen: openapi_python_client failed: ")
    assert error.count("\n") == 1
    assert files(project) == before


@pytest.mark.parametrize("options", [[], ["--out"]])
def test_a_trial_that_fails_changes_nothing(
    options: list[str],
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail = Mock(side_effect=Unusable("the generated package does not work"))
    monkeypatch.setattr("codegen.__main__.try_out", fail)
    before, out = files(project), [str(tmp_path / "out")] if options else []
    assert main([*options, *out], root=project) == 2
    assert capsys.readouterr().err == "codegen: the generated package does not work\n"
    assert files(project) == before


@pytest.mark.parametrize("wrong", [["--nope"], ["--check", "--out", "x"], ["diff", "one"]])
def test_a_wrong_command_line_ends_with_2(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert "usage: python -m codegen" in capsys.readouterr().err
