"""Client assertions for the tests, made with python-jose alone."""

from jose import jws
from pydantic import JsonValue

from tests.oidc.protocol.jose.keypairs import ec_key, rsa_key
from tests.oidc.testing.bare_client import SECRET, BareClient

RSA_KEY, EC_KEY = rsa_key(), ec_key()


def claims(rp: BareClient, **changes: JsonValue) -> dict[str, JsonValue]:
    """The claims of a valid assertion; None removes one."""
    now = int(rp.time.now)
    valid: dict[str, JsonValue] = {
        "iss": "app",
        "sub": "app",
        "aud": rp.provider.issuer,
        "jti": "unique",
        "iat": now,
        "exp": now + 60,
    }
    return {name: value for name, value in {**valid, **changes}.items() if value is not None}


def signed(members: dict[str, JsonValue], *, key: str = SECRET, algorithm: str = "HS256") -> str:
    """The compact JWS of `members`."""
    return str(jws.sign(members, key, algorithm=algorithm))


def form(assertion: str) -> dict[str, str]:
    """The two parameters that carry an assertion (RFC 7523 2.2)."""
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    return {"client_assertion_type": kind, "client_assertion": assertion}
