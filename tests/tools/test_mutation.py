"""`make mutants` names each change that no test noticed, and knows which of them are explained."""

import json
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

def x__half__mutmut_4(number, share=2):
    return 2
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
        "x__half__mutmut_4": Difference(MODULE, "_half", ("return number / share",), ("return 2",)),
    }


def test_a_survivor_is_named_unless_it_is_explained(tmp_path: Path) -> None:
    played = tmp_path / "mutants" / MODULE
    played.parent.mkdir(parents=True)
    played.write_text(MUTATED)
    names = ["xǁLimitǁreached__mutmut_1", *(f"x__half__mutmut_{number}" for number in (1, 2, 3, 4))]
    numbered = zip(names, (1, 0, 33, None, 255), strict=True)
    statuses = {f"fastapi_oidc.protocol.claims.{name}": status for name, status in numbered}
    Path(f"{played}.meta").write_text(json.dumps({"exit_code_by_key": statuses}))

    assert not results(
        tmp_path, ["fastapi_oidc/protocol/without_functions.py"], []
    ).is_of_any_mutant
    found = results(tmp_path, [MODULE, "fastapi_oidc/protocol/without_functions.py"], [])
    others = {"killed": 1, "not played": 1, REFUSED: 1}
    assert found.counts == {**others, "survived": 2}
    assert found.is_of_any_mutant
    assert found.unexplained[0] == HALF_TIMES

    known = Explanation(MODULE, "_half", HALF_TIMES.removed[0], HALF_TIMES.added, "because")
    found = results(tmp_path, [MODULE], [known])
    assert found.counts == {**others, "survived": 1, "explained": 1}
    assert HALF_TIMES not in found.unexplained


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
