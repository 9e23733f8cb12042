"""Self-signed certificates for 127.0.0.1 that are valid when a test wants."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

_AUTHORITY = """
[ca]
default_ca = it
[it]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
basicConstraints = critical,CA:TRUE
"""


def make_certificate(folder: Path, begins_days: int, ends_days: int) -> tuple[Path, Path]:
    """Return (certificate, key) valid between two days counted from now."""
    folder.mkdir()
    (folder / "index").touch()
    (folder / "serial").write_text("01\n")
    (folder / "ca.cnf").write_text(_AUTHORITY.format(folder=folder))
    chain, key, request = folder / "server.crt", folder / "server.key", folder / "server.csr"
    begins, ends = (
        (datetime.now(UTC) + timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (begins_days, ends_days)
    )
    for words in (
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1",
         "-keyout", str(key), "-out", str(request)],
        ["ca", "-config", str(folder / "ca.cnf"), "-batch", "-selfsign", "-keyfile", str(key), "-in", str(request),
         "-out", str(chain), "-notext", "-startdate", begins, "-enddate", ends],
    ):  # fmt: skip
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    return chain, key
