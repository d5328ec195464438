"""What the program takes on its command line, and how it ends when it cannot begin."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing.arguments import Arguments, WrongArguments
from generated_vmm.testing.process import main
from tests.vmm.simulator.started import PATIENCE, Start
from tests.vmm.simulator.started import start as start


@pytest.mark.parametrize(
    "arguments",
    [
        ["--id", "a_b"],
        ["--id", "a" * 65],
        ["--config-file", "/no/such/file"],
        ["--metadata", "/no/such/file"],
        ["--http-api-max-payload-size", "many"],
    ],
    ids=" ".join,
)
def test_what_makes_the_program_panic_aborts_it(
    start: Start, folder: Path, arguments: list[str]
) -> None:
    process = start("--api-sock", str(folder / "m.socket"), *arguments)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGABRT
    assert b"Firecracker panicked" in out
    assert not (folder / "m.socket").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--level", "Loud"], 152, "Invalid value for logger level"),
        (["--log-path", "/no/such/folder/log"], 1, "Could not initialize logger"),
        (["--metrics-path", "/no/such/folder/m"], 1, "Could not initialize metrics"),
        (["--seccomp-filter", "/no/such/file"], 1, "Seccomp error: Filter file open error"),
        (["--describe-snapshot", "/no/such/file"], 1, "Unable to open snapshot state file"),
        (["--describe-snapshot", __file__], 1, "Invalid format"),
        (["--nope"], 153, "Found argument 'nope' which wasn't expected"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_begin_ends_with_its_status(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    said: str,
) -> None:
    assert main(["--api-sock", str(folder / "m.socket"), *arguments]) == status
    captured = capfd.readouterr()
    assert said in captured.out
    assert captured.out.endswith(f"Firecracker exiting with error. exit_code={status}\n")
    assert captured.err.startswith("Error: ")


@pytest.mark.parametrize("broken", ["{", "[]", '{"drives":[]}', '{"boot-source":{},"drives":[]}'])
def test_a_file_that_is_no_microvm_ends_it(
    folder: Path, capfd: pytest.CaptureFixture[str], broken: str
) -> None:
    path = folder / "config.json"
    path.write_text(broken)
    given = ["--api-sock", str(folder / "m.socket"), "--config-file", str(path)]
    assert main(given) == 1
    assert "Failed to build MicroVM from Json: " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--version", f"Firecracker v{API_VERSION}\n"), ("--help", "--api-sock <api-sock>")],
)
def test_what_is_only_asked_is_answered(
    capfd: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    assert main([flag, "surplus"]) == 0
    assert said in capfd.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["surplus"], "Found argument 'surplus'"),
        (["--id=a"], "Found argument 'id=a'"),
        (["--id", "a", "--id", "b"], "The argument 'id' was provided more than once."),
        (["--id"], "The argument 'id' requires a value"),
        (["--id", "--no-api"], "The argument 'id' requires a value"),
        (["--no-api"], "Argument 'config-file' required, but not found."),
        (["--no-seccomp", "--seccomp-filter", "f"], "cannot be used together with"),
    ],
)
def test_arguments_are_taken_strictly(given: list[str], said: str) -> None:
    with pytest.raises(WrongArguments, match=said):
        Arguments(given)
