"""Many generated packages tried at once: one process imports them, and one run of mypy checks them.

Each has a name of its own, with the written client beside it; some have all that stands on the
client too, and the console.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from codegen.generate import CONFIG, put_together
from tests.vmm.codegen.descriptions import PROJECT

CONSOLE = PROJECT.root / "examples" / "console"
ABOVE = ("guest", "machines", "testing")
# Warnings are errors, and the modules of a console are those that make its forms.
IMPORT = """
import importlib, pkgutil, sys
sys.path.insert(0, ".")
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    found = pkgutil.walk_packages(package.__path__, f"{name}.") if "vmm_" in name else []
    for module in found:
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
"""


def faults_of(made: Mapping[str, Path], with_console: Collection[str], folder: Path) -> list[str]:
    """What is wrong with generated packages, by name: the last line of an import, mypy's errors."""
    for name, package in made.items():
        put_together(package, PROJECT.parts, PROJECT.written, folder / f"vmm_{name}")
        if name not in with_console:
            for part in ABOVE:
                shutil.rmtree(folder / f"vmm_{name}" / part)
        else:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CONSOLE, folder / f"console_{name}", ignore=ignored)
        for path in folder.glob(f"*_{name}/**/*.py"):
            path.write_text(_renamed(path.read_text("utf-8"), name), "utf-8")
    (folder / "examples").mkdir()
    for name in ("fastapi_oidc", "examples/__init__.py", "examples/calendar"):
        (folder / name).symlink_to(PROJECT.root / name)
    packages = [*(f"vmm_{name}" for name in made), *(f"console_{name}" for name in with_console)]
    forms = [f"console_{name}.changes" for name in with_console]
    cache = ("--config-file", str(CONFIG), "--cache-dir", str(PROJECT.mypy_cache))
    return [
        *python(folder, "-I", "-W", "error", "-c", IMPORT, *packages[: len(made)], *forms)[-1:],
        *python(folder, "-m", "mypy", "--no-error-summary", *cache, *_each("--package", packages)),
    ]


def _each(option: str, values: list[str]) -> list[str]:
    return [f"{option}={value}" for value in values]


def _renamed(source: str, name: str) -> str:
    source = re.sub(r"\bgenerated_vmm\b", f"vmm_{name}", source)
    return re.sub(r"\bexamples\.console\b", f"console_{name}", source)


def python(folder: Path, *arguments: str) -> list[str]:
    """The lines that Python printed with these arguments, its errors last."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).splitlines()
