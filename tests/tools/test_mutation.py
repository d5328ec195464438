"""`make mutants` names each change that no test noticed, and knows which of them are explained."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.vmm.forking import forked
from tools.mutation.areas import AREAS, REPOSITORY, UNRUN, USUAL, folders_for, modules
from tools.mutation.differences import Difference, differences
from tools.mutation.fastest_first import MEASURED, pytest_collection_modifyitems
from tools.mutation.playing import settings
from tools.mutation.survivors import REFUSED, Explanation, explanations, results

MODULE = "fastapi_oidc/protocol/claims.py"
MUTATED = """
class Limit:
    def xǁLimitǁreached__mutmut_orig(self, count: int) -> bool:
        return count > self.most

    @staticmethod
    def xǁLimitǁreached__mutmut_1(self, count: int) -> bool:
        return count >= self.most

def x__half__mutmut_orig(number, share=2):
    return number / share

def x__half__mutmut_1(number, share=2):
    return number * share

def x__half__mutmut_2(number, share=3):
    return number / share

def x__half__mutmut_3(number, share=2):
    return None
"""
HALF_TIMES = Difference(MODULE, "_half", ("return number / share",), ("return number * share",))


def test_a_difference_is_the_changed_line_of_a_function() -> None:
    assert differences(MODULE, MUTATED) == {
        "xǁLimitǁreached__mutmut_1": Difference(
            MODULE, "Limit.reached", ("return count > self.most",), ("return count >= self.most",)
        ),
        "x__half__mutmut_1": HALF_TIMES,
        "x__half__mutmut_2": Difference(
            MODULE, "_half", ("number, share=2):",), ("number, share=3):",)
        ),
        "x__half__mutmut_3": Difference(
            MODULE, "_half", ("return number / share",), ("return None",)
        ),
    }


def test_the_case_of_an_encodings_name_is_no_difference() -> None:
    bodies = {"orig": "ascii", "1": "ASCII", "2": "latin-1"}
    mutated = "".join(
        f"def x_f__mutmut_{name}(a):\n    return a.encode('{codec}')\n"
        for name, codec in bodies.items()
    )
    found = differences(MODULE, mutated)
    assert (found["x_f__mutmut_1"].removed, found["x_f__mutmut_1"].added) == ((), ())
    assert found["x_f__mutmut_2"].added == ("return a.encode('latin-1')",)


def test_a_survivor_is_named_unless_it_is_explained(tmp_path: Path) -> None:
    played = tmp_path / "mutants" / MODULE
    played.parent.mkdir(parents=True)
    played.write_text(MUTATED)
    names = ["xǁLimitǁreached__mutmut_1", *(f"x__half__mutmut_{number}" for number in (1, 2, 3))]
    numbered = zip(names, (1, 0, 33, None), strict=True)
    statuses = {f"fastapi_oidc.protocol.claims.{name}": status for name, status in numbered}
    Path(f"{played}.meta").write_text(json.dumps({"exit_code_by_key": statuses}))

    assert not results(tmp_path, ["fastapi_oidc/protocol/without_functions.py"], []).is_told
    found = results(tmp_path, [MODULE, "fastapi_oidc/protocol/without_functions.py"], [])
    assert found.counts == {"killed": 1, "survived": 2, "not played": 1}
    assert found.is_told
    assert found.unexplained[0] == HALF_TIMES

    known = Explanation(MODULE, "_half", HALF_TIMES.removed[0], HALF_TIMES.added, "because")
    found = results(tmp_path, [MODULE], [known])
    assert found.counts == {"killed": 1, "survived": 1, "explained": 1, "not played": 1}
    assert HALF_TIMES not in found.unexplained


def test_a_mutant_whose_tests_pytest_did_not_find_is_not_killed(tmp_path: Path) -> None:
    played = tmp_path / "mutants" / MODULE
    played.parent.mkdir(parents=True)
    played.write_text(MUTATED)
    statuses = {"fastapi_oidc.protocol.claims.x__half__mutmut_1": 255}
    Path(f"{played}.meta").write_text(json.dumps({"exit_code_by_key": statuses}))
    assert results(tmp_path, [MODULE], []).counts == {REFUSED: 1}


COLLECTING_TWICE = """
import pytest

class Names:
    def pytest_collection_modifyitems(self, items):
        print([item.name for item in items])

for _ in range(2):
    pytest.main(["--import-mode=importlib", "-qqq", "--collect-only",
                 "-p", "tools.mutation.same_names",
                 "-p", "no:cacheprovider", "test_odd.py"], plugins=[Names()])
"""
ODD = """
import pytest

@pytest.mark.parametrize("text", ["a\\nb", "\u2026"])
def test_odd(text): ...
"""


def test_a_test_keeps_its_name_when_it_is_collected_again(tmp_path: Path) -> None:
    (tmp_path / "test_odd.py").write_text(ODD)
    collected = subprocess.run(
        [sys.executable, "-c", COLLECTING_TWICE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [line for line in collected.splitlines() if line.startswith("[")]
    assert names == [r"['test_odd[a\\nb]', 'test_odd[\\u2026]']"] * 2


LEFT_OPEN = """
import socket

def test_left():
    left = [socket.socket(), socket.socket()]
    left.append(left)
"""


def test_what_is_left_open_is_a_failure(tmp_path: Path) -> None:
    """It ends as a reference cycle, when pytest looks for what nobody closed."""
    (tmp_path / "test_left.py").write_text(LEFT_OPEN)
    unraisable = "error::pytest.PytestUnraisableExceptionWarning"
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-W", unraisable]
    ended = subprocess.run(
        [*pytest_here, "-W", "error::ResourceWarning", "-p", "tools.mutation.leftovers"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert ended.stdout.startswith(".")  # the test itself passed
    assert "Traceback" not in ended.stderr


def test_what_a_forked_child_runs_counts_for_its_test() -> None:
    """In a child itself, since the plugin stays for as long as its process."""
    mutmut = ModuleType("mutmut.state")
    noted = SimpleNamespace(_stats={"parse"})
    vars(mutmut)["state"] = lambda: noted

    def child(runs: str) -> object:
        return forked(lambda: noted._stats.add(runs)).result()

    def rounds() -> list[list[str]]:
        sys.modules |= {"mutmut": ModuleType("mutmut"), "mutmut.state": mutmut}
        from tools.mutation import forked_children

        ran = []
        for name in ("start_over", "close"):
            child(runs=name)
            forked_children.pytest_runtest_teardown()
            ran.append(sorted(noted._stats))
            noted._stats.clear()
        return ran

    assert forked(rounds).result() == [["parse", "start_over"], ["close"]]


def test_the_named_modules_are_played_with_the_tests_of_their_area() -> None:
    chosen = modules([MODULE, "generated_vmm/transport/calls.py"], base="HEAD")
    assert chosen == [MODULE, "generated_vmm/transport/calls.py"]
    assert folders_for(chosen) == sorted(
        (*AREAS["fastapi_oidc/protocol/"], *AREAS["generated_vmm/transport/"])
    )
    assert json.dumps(chosen) in settings(chosen)


@pytest.mark.parametrize("name", ["fastapi_oidc/oidc.py", "fastapi_oidc/protocol/gone.py", "x"])
def test_another_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no module of"):
        modules([name], base="HEAD")


def test_areas_and_usual_modules_exist() -> None:
    assert all((REPOSITORY / each).exists() for area in AREAS for each in (area, *AREAS[area]))
    assert modules(USUAL, base="HEAD") == sorted(USUAL)
    assert all((REPOSITORY / name).is_file() for name in UNRUN)


def test_the_fastest_test_runs_first_once_they_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in ("slow", "fast", "new")]

    def names_in_turn() -> list[str]:
        pytest_collection_modifyitems(items)
        return [item.nodeid for item in items]

    assert names_in_turn() == ["slow", "fast", "new"]
    MEASURED.write_text(json.dumps({"duration_by_test": {"slow": 2.0, "fast": 0.1}}))
    assert names_in_turn() == ["new", "fast", "slow"]


def test_an_explained_change_is_of_code_that_is_there() -> None:
    for known in explanations():
        tree = ast.parse((REPOSITORY / known.module).read_text())
        lines = {line.strip() for line in ast.unparse(tree).splitlines()}
        lines |= {line.partition("(")[2] for line in lines if "def " in line}
        assert set(known.removed.splitlines()) <= lines, known
        assert known.reason
