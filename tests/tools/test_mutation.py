"""`make mutants` names each change that no test noticed, and knows which of them are explained."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutation.areas import AREAS, REPOSITORY, UNRUN, USUAL, folders_for, modules
from tools.mutation.differences import Difference, differences
from tools.mutation.playing import settings
from tools.mutation.survivors import EXPLAINED, REFUSED, Explanation, explanations, pruned, results

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


def test_a_survivor_is_named_unless_it_is_explained(tmp_path: Path) -> None:
    played = tmp_path / "mutants" / MODULE
    played.parent.mkdir(parents=True)
    played.write_text(MUTATED)
    names = ["xǁLimitǁreached__mutmut_1", *(f"x__half__mutmut_{number}" for number in (1, 2, 3))]
    numbered = zip(names, (1, 0, 33, None), strict=True)
    statuses = {f"fastapi_oidc.protocol.claims.{name}": status for name, status in numbered}
    Path(f"{played}.meta").write_text(json.dumps({"exit_code_by_key": statuses}))

    assert not results(
        tmp_path, ["fastapi_oidc/protocol/without_functions.py"], []
    ).is_of_any_mutant
    found = results(tmp_path, [MODULE, "fastapi_oidc/protocol/without_functions.py"], [])
    assert found.counts == {"killed": 1, "survived": 2, "not played": 1}
    assert found.is_of_any_mutant
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


# mutmut itself is not installed for tests: the plugin is given what it needs of it.
WITHOUT_MUTMUT = """
import sys
from types import ModuleType, SimpleNamespace

noted = SimpleNamespace(_stats={"parse"})
mutmut = ModuleType("mutmut.state")
mutmut.state = lambda: noted
sys.modules |= {"mutmut": ModuleType("mutmut"), "mutmut.state": mutmut}
"""
COLLECTING_TWICE = f"""{WITHOUT_MUTMUT}
import pytest

class Names:
    def pytest_collection_modifyitems(self, items):
        print([item.name for item in items])

for _ in range(2):
    pytest.main(["--import-mode=importlib", "-qqq", "--collect-only", "-p", "no:cacheprovider",
                 "-p", "tools.mutation.plugin", "test_odd.py"], plugins=[Names()])
"""
ODD = """
import pytest

@pytest.mark.parametrize("text", ["a\\nb", "\u2026"])
def test_odd(text): ...
"""
LEAVING = f"""{WITHOUT_MUTMUT}
import pytest

sys.exit(pytest.main(["-q", "-p", "no:asyncio", "-W", "error::ResourceWarning",
                      "-W", "error::pytest.PytestUnraisableExceptionWarning",
                      "-p", "tools.mutation.plugin"]))
"""
LEFT_OPEN = """
import socket

def test_left():
    left = [socket.socket(), socket.socket()]
    left.append(left)
"""
FORKING = f"""{WITHOUT_MUTMUT}
import os
from tools.mutation import plugin

for name in ("start_over", "close"):
    child = os.fork()
    if not child:
        mutmut.state()._stats.add(name)
        os._exit(0)
    os.waitpid(child, 0)
    plugin.pytest_runtest_teardown()
    print(sorted(noted._stats))
    noted._stats.clear()
"""


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )


def test_a_test_keeps_its_name_when_it_is_collected_again(tmp_path: Path) -> None:
    (tmp_path / "test_odd.py").write_text(ODD)
    lines = run(COLLECTING_TWICE, tmp_path).stdout.splitlines()
    names = [line for line in lines if line.startswith("[")]
    assert names == [r"['test_odd[a\\nb]', 'test_odd[\\u2026]']"] * 2


def test_what_is_left_open_is_a_failure(tmp_path: Path) -> None:
    """It ends as a reference cycle, when pytest looks for what nobody closed."""
    (tmp_path / "test_left.py").write_text(LEFT_OPEN)
    ended = run(LEAVING, tmp_path)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert ended.stdout.startswith(".")  # the test itself passed
    assert "Traceback" not in ended.stderr


def test_what_a_forked_child_runs_counts_for_its_test(tmp_path: Path) -> None:
    lines = run(FORKING, tmp_path).stdout.splitlines()
    assert lines == ["['parse', 'start_over']", "['close']"]


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


def test_an_explanation_is_of_present_code() -> None:
    text = EXPLAINED.read_text()
    assert pruned(text) == text, "run: python -m tools.mutation --prune"
    assert all(known.reason for known in explanations(text))


def test_an_explanation_of_old_code_is_pruned() -> None:
    known = EXPLAINED.read_text()
    old = """[[survivor]]
module = "fastapi_oidc/protocol/claims.py"
function = "gone"
removed = "return gone"
added = ["return None"]
reason = "It was not used."
"""
    assert pruned(known + old) == pruned(known)
