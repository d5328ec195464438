"""A certificate authority made for one test, and a TLS server on loopback."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.oidc.provider.sockets import Script, Server

# Python 3.13 believes no authority that does not say what its key is for (RFC 5280 4.2.1.3).
ISSUES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Issues certificates into `folder`; `file` is its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = generate_private_key(SECP256R1())
        self._name = _name(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder(self._name, self._key).add_extension(basic, critical=True)
        self.file = folder / f"{name}.pem"
        signed = certificate.add_extension(ISSUES, critical=True).sign(self._key, SHA256())
        self.file.write_bytes(signed.public_bytes(Encoding.PEM))

    def issue(self, name: str) -> Path:
        """A PEM file with a key and a certificate for 127.0.0.1."""
        key = generate_private_key(SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        builder = self._builder(_name(name), key).add_extension(address, critical=False)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file = self._folder / f"{name}.pem"
        file.write_bytes(private + builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        return file

    def _builder(self, subject: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        public = key.public_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(issuer, critical=False)
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@asynccontextmanager
async def listening_with_tls(
    script: Script, certificate: Path, *, clients_of: Path | None = None
) -> AsyncIterator[Server]:
    """A TLS server of 127.0.0.1; with `clients_of` it wants a certificate of that authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients_of)
    context.load_cert_chain(certificate)
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    server = Server(script)
    listener = await asyncio.start_server(server.serve_connection, "127.0.0.1", 0, ssl=context)
    server.url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        await server.end()
        await listener.wait_closed()
