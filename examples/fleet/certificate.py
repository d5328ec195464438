"""A certificate for this machine only, created at each start and trusted nowhere else."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID_FOR: Final = timedelta(days=7)


def write_certificate(certificate: Path, key: Path) -> ssl.SSLContext:
    """Writes both as PEM, the key only for its owner; returns a context that trusts only it."""
    private_key = ec.generate_private_key(ec.SECP256R1())
    made = _signed(private_key)
    key.touch(mode=0o600)
    key.write_bytes(
        private_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return ssl.create_default_context(cafile=str(certificate))


def _signed(private_key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Signed with its own key; the extensions are those that OpenSSL's strict rules require."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    public_key, now = private_key.public_key(), datetime.now(UTC)
    names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
    return (
        x509.CertificateBuilder(name, name, public_key, x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .sign(private_key, hashes.SHA256())
    )


_KEY_USAGE: Final = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
