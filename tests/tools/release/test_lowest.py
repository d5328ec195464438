"""The lowest versions that pyproject.toml allows, as constraints."""

from __future__ import annotations

import pytest

from tools.release.lowest import lowest


def project(*dependencies: str, **extras: list[str]) -> dict[str, object]:
    return {"dependencies": list(dependencies), "optional-dependencies": extras}


def test_each_dependency_and_extra_is_pinned_to_its_lower_bound() -> None:
    lines = lowest(project("b>=2.1,<3", "a[x]>=1", redis=["c==4", "b>=2.1,<3"]))
    assert list(lines) == ["a==1", "b==2.1", "c==4"]


@pytest.mark.parametrize("dependency", ["a", "a<2", "a>=1,>=2"])
def test_a_dependency_without_one_lower_bound_is_refused(dependency: str) -> None:
    with pytest.raises(ValueError, match="no lower bound"):
        list(lowest(project(dependency)))
