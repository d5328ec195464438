r"""A pytest plugin: a test has the same name however often one process collects it.

pytest keeps the names that it made for parameters and escapes them again the next time, so that
`[a\nb]` becomes `[a\\nb]`. mutmut collects twice and asks for tests by their first names.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Forgets the names of the collection before."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        object.__setattr__(mark._param_ids_from or mark, "_param_ids_generated", None)
