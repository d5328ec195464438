"""A transport of httpx2's is a way to the monitor like one of httpx's, with the same errors.

httpx2 is httpx under another name. With it installed Starlette's test client would use it instead
of httpx, so what is tried here is a copy of httpx of that name, unless httpx2 is there.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from generated_vmm import AsyncVmmClient, VmmClient, VmmConnectionError, VmmError, VmmTimeoutError
from generated_vmm.transport import httpx_values
from tests.vmm.facade.conftest import result_of

KINDS = pytest.mark.parametrize("kind", [VmmClient, AsyncVmmClient])


@pytest.fixture(scope="module")
def httpx2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if importlib.util.find_spec("httpx2") is not None:
        yield importlib.import_module("httpx2")
        return
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(httpx.__file__).parent, folder / "httpx2")
    package = folder / "httpx2" / "__init__.py"
    text = package.read_text().replace('"__module__", "httpx"', '"__module__", "httpx2"')
    package.write_text(text)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("httpx2")
    sys.path.remove(str(folder))
    for name in [found for found in sys.modules if found.partition(".")[0] == "httpx2"]:
        del sys.modules[name]


@KINDS
def test_an_answer_is_read(kind: Any, httpx2: Any) -> None:
    def answered(request: Any) -> Any:
        assert isinstance(request, httpx2.Request)
        return httpx2.Response(200, content=b'{"firecracker_version":"9"}')

    vm = kind("/vm", transport=httpx2.MockTransport(answered))
    assert result_of(vm.get_version).firecracker_version == "9"


@pytest.mark.parametrize(
    ("name", "kind", "known"),
    [
        ("ConnectError", VmmConnectionError, "no connection: odd; nothing was sent"),
        ("ReadError", VmmConnectionError, "connection lost: odd; the monitor may have"),
        ("ConnectTimeout", VmmTimeoutError, "odd within 3 s; nothing was sent"),
        ("PoolTimeout", VmmTimeoutError, "odd within 3 s; nothing was sent"),
        ("ReadTimeout", VmmTimeoutError, "odd within 3 s; the monitor may have"),
        ("DecodingError", VmmError, "the transport raised DecodingError: odd; the monitor may"),
    ],
)
def test_an_error_means_what_it_means_from_httpx(
    name: str, kind: type[VmmError], known: str, httpx2: Any
) -> None:
    said = []
    for library in (httpx, httpx2):
        error = getattr(library, name)("odd")

        def fail(_: Any, error: Exception = error) -> Any:
            raise error

        vm = VmmClient("/vm", timeout=3, transport=library.MockTransport(fail))
        with pytest.raises(kind, match=known) as caught:
            vm.pause()
        assert caught.value.__cause__ is error
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_transport_of_nobodys_gets_requests_of_httpx() -> None:
    assert httpx_values.library_of(object()) is httpx
