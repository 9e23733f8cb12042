"""A small certificate authority: of a fleet's devices, or of one relay. P-256, one folder. Alone imports cryptography.

ca.key    the authority's secret, mode 0600        issued/    <user name>-<serial>.crt, one for each certificate
ca.crt    what the broker trusts (`cafile`)        revoked/   the revoked ones
revoked.crl   what the broker refuses (`crlfile`)

1. A device's certificate names its user name as CN, may only authenticate a client, and is no authority itself: with
   CA:TRUE one device could forge another.
2. It expires in ten years, or with the authority. A fleet is renewed by `remove`, not by the calendar.
3. Files are replaced whole; issued certificates are stored before they are handed out, so that each can be revoked.
4. A server's certificate may only authenticate a server; it is valid for a year, and renewed before its end.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from covey.adapters.broker.mosquitto_passwords import check_device_name
from covey.adapters.files import locked_folder, replace_durably, storage_errors
from covey.adapters.keys.key_file import private_folder, read_secret, write_secret
from covey.adapters.keys.wrapped_file import is_wrapped_content, unwrapped, wrapped
from covey.errors import ConfigurationError, DecryptionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

    from covey.adapters.keys.storage_key import StorageKey

_KEY = "ca.key"
_CLOSED = "closed"
"""The folder of certificates that are revoked as long as their devices are no members."""
_BY_HAND = "by-hand"
"""The folder with a file for each device that a person let in."""
_MAXIMUM_FILE_BYTES = 64 * 1024
_COMMON_NAME = 64
"""RFC 5280, ub-common-name."""
_AUTHORITY_YEARS = 30
_DEVICE_YEARS = 10
_YEAR = timedelta(days=365)
_SERVER_DAYS = timedelta(days=397)
"""The longest that any widespread TLS library has wished for."""
_CLOCK_SKEW = timedelta(days=1)
"""A certificate begins so long before it is made: the broker's clock is another one."""


@dataclass(frozen=True, slots=True, repr=False)
class FleetCa:
    """An authority that is open for use."""

    folder: Path
    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path, storage_key: StorageKey | None = None) -> FleetCa:
        """Make an authority in a folder of its own, or open the one that is there.

        `storage_key`, of the device that serves the relay itself, wraps the authority's key.

        Raises:
            ConfigurationError: the folder is open to others, or what is in it is damaged.
            StorageError: the disk refused.
        """
        private_folder(folder)
        with storage_errors("write", folder), locked_folder(folder):
            if not (folder / "ca.crt").exists():  # written last: without it nothing was ever issued
                key = ec.generate_private_key(ec.SECP256R1())
                pem = _key_pem(key)
                write_secret(folder / _KEY, pem if storage_key is None else wrapped(pem, storage_key, _KEY))
                replace_durably(folder / "ca.crt", _certificate_pem(_self_signed(key)), 0o644)
            for name in ("issued", "revoked", _CLOSED, _BY_HAND):
                private_folder(folder / name)
        authority = cls.open(folder, storage_key)
        authority.publish_revocations()
        return authority

    @classmethod
    def open(cls, folder: Path, storage_key: StorageKey | None = None) -> FleetCa:
        """Open an authority that was made before.

        Raises:
            ConfigurationError: there is none, others may read its key, or it is damaged.
            StorageError: the disk refused.
        """
        if not (folder / "ca.crt").exists():
            raise ConfigurationError(f"{folder} holds no fleet CA", hint=f"covey broker init --ca {folder}")
        try:
            pem: bytes | bytearray = read_secret(folder / _KEY, _MAXIMUM_FILE_BYTES)
            if is_wrapped_content(pem):
                if storage_key is None:
                    raise ConfigurationError(
                        f"the key of the CA in {folder} opens for the device that serves this relay alone",
                        hint="name another CA: --ca DIR",
                    )
                pem = unwrapped(pem, storage_key, _KEY)
            key = serialization.load_pem_private_key(pem, None)
            certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        except (ValueError, TypeError, OSError, DecryptionError) as error:
            raise ConfigurationError(
                f"the fleet CA in {folder} is damaged", hint="restore ca.key and ca.crt from a backup"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or _public(key.public_key()) != _public(
            certificate.public_key()
        ):
            raise ConfigurationError(
                f"ca.key and ca.crt in {folder} do not match", hint="restore both from the same backup"
            )
        return cls(folder, certificate, key)

    def mint(self, user_name: str, *, by_hand: bool = False) -> str:
        """Issue a certificate for a new key; return both as one PEM text. The key is kept nowhere else.

        What a person makes `by_hand`, only a person revokes.

        Raises:
            UsageError: that is not a device's user name.
            StorageError: the disk refused.
        """
        check_device_name(user_name)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(user_name, key.public_key(), _DEVICE_YEARS * _YEAR, ExtendedKeyUsageOID.CLIENT_AUTH)
        pem = _certificate_pem(certificate)
        if by_hand:
            private_folder(self.folder / _BY_HAND)
            replace_durably(self.folder / _BY_HAND / user_name, b"", 0o644)
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
            issued = self._move(user_name, "issued", "revoked")
            self._move(user_name, _CLOSED, "revoked")
            (self.folder / _BY_HAND / user_name).unlink(missing_ok=True)
        self.publish_revocations()
        return issued

    def _move(self, user_name: str, before: str, after: str) -> bool:
        private_folder(self.folder / after)
        found = sorted((self.folder / before).glob(f"{user_name}-*.crt"))
        for path in found:
            path.replace(self.folder / after / path.name)
        return bool(found)

    def reinstate(self, user_names: Iterable[str]) -> list[str]:
        """Let devices in again that were closed; return which.

        A certificate that a restored folder does not list holds anyway.

        Raises:
            StorageError: the disk refused.
        """
        closed = {path.name.partition("-")[0] for path in (self.folder / _CLOSED).glob("*.crt")}
        with storage_errors("write", self.folder), locked_folder(self.folder):
            let_in = [each for each in sorted(closed.intersection(user_names)) if self._move(each, _CLOSED, "issued")]
        if let_in:
            self.publish_revocations()
        return let_in

    def close(self, user_names: Iterable[str]) -> list[str]:
        """Revoke the certificates of devices, but for those that a person made by hand; return which had any.

        `reinstate` lets them in again.

        Raises:
            StorageError: the disk refused.
        """
        issued = {path.name.partition("-")[0] for path in (self.folder / "issued").glob("*.crt")}
        with storage_errors("write", self.folder), locked_folder(self.folder):
            by_code = [each for each in issued.intersection(user_names) if not (self.folder / _BY_HAND / each).exists()]
            closed = [each for each in sorted(by_code) if self._move(each, "issued", _CLOSED)]
        if closed:
            self.publish_revocations()
        return closed

    def mint_server(self, names: Sequence[str]) -> str:
        """Issue a server's certificate for a new key, by the names and addresses that it is reached at; return both.

        One PEM text: the key, the certificate, and this authority's, which devices that trust it do not need.

        Raises:
            ConfigurationError: something is neither a name nor an address.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        certificate = self._issue(
            names[0][:_COMMON_NAME], key.public_key(), _SERVER_DAYS, ExtendedKeyUsageOID.SERVER_AUTH, alternatives
        )
        return (_key_pem(key) + _certificate_pem(certificate) + _certificate_pem(self.certificate)).decode()

    def vouches_for(self, server_pem: bytes, names: Sequence[str], margin: timedelta) -> bool:
        """Say whether a server's certificate is of this authority, for all these names, and valid for so long."""
        current = x509.load_pem_x509_certificate(server_pem[server_pem.index(b"-----BEGIN CERTIFICATE") :])
        found = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return (
            current.issuer == self.certificate.subject
            and {str(each.value) for each in found} >= set(names)
            and _ends_at(current) - datetime.now(UTC) > margin
        )

    def _issue(
        self,
        common_name: str,
        public_key: ec.EllipticCurvePublicKey,
        validity: timedelta,
        use: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            .issuer_name(self.certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(min(now + validity, _ends_at(self.certificate)))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(self._key, hashes.SHA256())

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
                .next_update(_ends_at(self.certificate))
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
                )
                .add_extension(x509.CRLNumber(int(now.timestamp() * 1e6)), critical=False)
            )
            for path in sorted(each for name in ("revoked", _CLOSED) for each in (self.folder / name).glob("*.crt")):
                serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
                builder = builder.add_revoked_certificate(
                    x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _CLOCK_SKEW).build()
                )
            crl = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            replace_durably(self.folder / "revoked.crl", crl, 0o644)


def _public(key: CertificatePublicKeyTypes) -> bytes:
    """Return a public key's bytes, because Debian 12's cryptography cannot compare keys."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _ends_at(certificate: x509.Certificate) -> datetime:
    """Return when a certificate ends; Debian 12's cryptography knows only the time without a zone."""
    if hasattr(certificate, "not_valid_after_utc"):
        return certificate.not_valid_after_utc
    return certificate.not_valid_after.replace(tzinfo=UTC)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigurationError(
            f"'{name}' is not a host name", hint="write it in ASCII, as in DNS (punycode)"
        ) from error


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
