"""A small certificate authority for one fleet: P-256, one folder, no server. The only module that imports cryptography.

ca.key    the authority's secret, mode 0600        issued/    <user name>-<serial>.crt, one for each certificate
ca.crt    what the broker trusts (`cafile`)        revoked/   those that were taken back
revoked.crl   what the broker refuses (`crlfile`)

1. A device's certificate names its user name as CN, may only authenticate a client, and is no authority itself:
   with CA:TRUE one device could forge another.
2. It ends ten years from now, or with the authority. A fleet is not renewed by the calendar but by `remove`.
3. Files are replaced whole; issued certificates are kept before they are handed out, so that each can be revoked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from covey.adapters.broker.mosquitto_passwords import check_device_name
from covey.adapters.files import locked_folder, replace_durably, storage_errors
from covey.adapters.keys.key_file import private_folder, read_secret, write_secret
from covey.errors import ConfigurationError

_MAXIMUM_FILE_BYTES = 64 * 1024
_AUTHORITY_YEARS = 30
_DEVICE_YEARS = 10
_YEAR = timedelta(days=365)
_CLOCK_SKEW = timedelta(days=1)
"""A certificate begins so long before it is made: the broker's clock is another one."""


@dataclass(frozen=True, slots=True, repr=False)
class FleetCa:
    """An authority that is open for use."""

    folder: Path
    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path) -> FleetCa:
        """Make an authority in a folder of its own, or open the one that is there.

        Raises:
            ConfigurationError: the folder is open to others, or what is in it is damaged.
            StorageError: the disk refused.
        """
        private_folder(folder)
        with storage_errors("write", folder), locked_folder(folder):
            if not (folder / "ca.crt").exists():  # written last: without it nothing was ever issued
                key = ec.generate_private_key(ec.SECP256R1())
                write_secret(folder / "ca.key", _key_pem(key))
                replace_durably(folder / "ca.crt", _certificate_pem(_self_signed(key)), 0o644)
            for name in ("issued", "revoked"):
                private_folder(folder / name)
        authority = cls.open(folder)
        authority.publish_revocations()
        return authority

    @classmethod
    def open(cls, folder: Path) -> FleetCa:
        """Open an authority that was made before.

        Raises:
            ConfigurationError: there is none, others may read its key, or it is damaged.
            StorageError: the disk refused.
        """
        if not (folder / "ca.crt").exists():
            raise ConfigurationError(f"{folder} holds no fleet CA", hint=f"covey broker init --ca {folder}")
        try:
            key = serialization.load_pem_private_key(read_secret(folder / "ca.key", _MAXIMUM_FILE_BYTES), None)
            certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(
                f"the fleet CA in {folder} is damaged", hint="restore ca.key and ca.crt from a backup"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ConfigurationError(f"ca.key and ca.crt in {folder} do not belong together", hint="restore both")
        return cls(folder, certificate, key)

    def mint(self, user_name: str) -> str:
        """Issue a certificate for a new key; return both as one PEM text. The key is kept nowhere else.

        Raises:
            UsageError: that is not a device's user name.
            StorageError: the disk refused.
        """
        check_device_name(user_name)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(user_name, key.public_key())
        pem = _certificate_pem(certificate)
        replace_durably(self.folder / "issued" / f"{user_name}-{certificate.serial_number:x}.crt", pem, 0o644)
        return (_key_pem(key) + pem).decode()

    def remove(self, user_name: str) -> bool:
        """Revoke every certificate of a device; return whether it had one. The broker must be given the new CRL.

        Raises:
            UsageError: that is not a device's user name.
            StorageError: the disk refused.
        """
        check_device_name(user_name)
        with storage_errors("write", self.folder), locked_folder(self.folder):
            issued = sorted((self.folder / "issued").glob(f"{user_name}-*.crt"))
            for path in issued:
                path.replace(self.folder / "revoked" / path.name)
        self.publish_revocations()
        return bool(issued)

    def _issue(self, user_name: str, public_key: ec.EllipticCurvePublicKey) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user_name)]))
            .issuer_name(self.certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(min(now + _DEVICE_YEARS * _YEAR, self.certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def publish_revocations(self) -> None:
        """Write the CRL of all that lies in `revoked/`, also of what a crash has left out.

        It holds as long as the authority: one that has expired would shut everybody out.

        Raises:
            StorageError: the disk refused.
        """
        with storage_errors("write", self.folder), locked_folder(self.folder):
            now = datetime.now(UTC)
            builder = (
                x509.CertificateRevocationListBuilder()
                .issuer_name(self.certificate.subject)
                .last_update(now - _CLOCK_SKEW)
                .next_update(self.certificate.not_valid_after_utc)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
                )
                .add_extension(x509.CRLNumber(int(now.timestamp() * 1e6)), critical=False)
            )
            for path in sorted((self.folder / "revoked").glob("*.crt")):
                serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
                builder = builder.add_revoked_certificate(
                    x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _CLOCK_SKEW).build()
                )
            crl = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            replace_durably(self.folder / "revoked.crl", crl, 0o644)


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    now = datetime.now(UTC)
    # A name of its own: two authorities that share one confuse whoever looks a certificate's issuer up by name.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"covey fleet {os.urandom(4).hex()}")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _AUTHORITY_YEARS * _YEAR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
