"""What a release consists of, built once for all tests here."""

import fcntl
import os
import zipfile
from collections.abc import Callable
from email.message import Message
from pathlib import Path

import pytest

from tests.packaging.built import CLIENT, build, metadata_of, unpacked


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills in the first process of a test run that asks for it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    done = folder.with_name(f"{name}.done")
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="session")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of the monitor's client alone."""
    return zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("client"), CLIENT))


@pytest.fixture(scope="session")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return metadata_of(wheel)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source archive."""
    archive = build("sdist", tmp_path_factory.mktemp("sdist"))
    return unpacked(archive, tmp_path_factory.mktemp("unpacked"))
