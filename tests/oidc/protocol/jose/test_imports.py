import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys
import fastapi_oidc.protocol as protocol
for module in pkgutil.walk_packages(protocol.__path__, "fastapi_oidc.protocol."):
    importlib.import_module(module.name)
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from fastapi_oidc.protocol.jose.sign import Signer
Signer.of_private_key(generate_private_key(SECP256R1())).sign({"sub": "alice"})
from jose.constants import ALGORITHMS
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(ALGORITHMS.KEYS))
"""


def test_the_pure_python_backends_are_never_imported_and_nothing_is_registered() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    modules, registered = (line.split() for line in run.stdout.split("\n")[:2])
    assert {"jose", "cryptography", "fastapi_oidc"} <= set(modules)
    assert {"ecdsa", "rsa", "pyasn1"}.isdisjoint(modules)
    assert registered == []
