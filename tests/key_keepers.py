"""What keeps keys, in software: a TPM 2.0 (swtpm), a PKCS#11 token (SoftHSM), and systemd-creds of this machine.

Where one is not installed the test is skipped, or in CI fails.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.waiting import GUARD_S, wait_until

PIN = "2718-2818"
_MODULES = (Path("/usr/lib/softhsm/libsofthsm2.so"), Path("/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so"))


def need(missing: str) -> None:
    """Go on where nothing is missing."""
    if missing and "CI" in os.environ:
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


def _need_programs(package: str, *names: str) -> None:
    absent = [name for name in names if shutil.which(name) is None]
    need(f"no {', '.join(absent)} here (apt-get install {package})" if absent else "")


class SoftwareTpm:
    """A TPM 2.0 in a folder, which tpm2-tools and systemd reach by the environment while the test runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make a new one and plug it in."""
        _need_programs("swtpm tpm2-tools libtss2-tcti-swtpm0", "swtpm", "tpm2_unseal")
        folder.mkdir()
        self._folder, self._socket = folder, folder / "tpm"
        monkeypatch.setenv("TPM2TOOLS_TCTI", f"swtpm:path={self._socket}")
        monkeypatch.setenv("SYSTEMD_TPM2_DEVICE", f"swtpm:path={self._socket}")
        self._process: subprocess.Popen[bytes] | None = None
        self.plug_in()

    def plug_in(self) -> None:
        """Give it power."""
        control = f"{self._socket}.ctrl"
        self._process = subprocess.Popen(
            [
                *("swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self._folder}"),
                *("--flags", "not-need-init,startup-clear"),
                *("--server", f"type=unixio,path={self._socket}", "--ctrl", f"type=unixio,path={control}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: _listens(control), "the TPM listens")

    def cut_power(self) -> None:
        """Take its power, as a blackout does: it is not told to shut down."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(GUARD_S)
            for path in (str(self._socket), f"{self._socket}.ctrl"):
                Path(path).unlink(missing_ok=True)
        self._process = None

    def take_ownership(self) -> None:
        """Set a password for the owner, which Covey does not know."""
        _done("tpm2_changeauth", "-Q", "-c", "owner", "somebody's")

    def clear(self) -> None:
        """Become another TPM: what the first one has sealed, no TPM opens any more."""
        self.cut_power()
        for path in self._folder.iterdir():
            path.unlink()
        self.plug_in()


def _listens(path: str) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)
        return True
    return False


class SoftwareToken:
    """A token in a folder, with an RSA key pair that it never gives away."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, label: str = "covey") -> None:
        """Make it and plug it in; `label` is the key pair's."""
        _need_programs("softhsm2 opensc", "softhsm2-util", "pkcs11-tool")
        pytest.importorskip("PyKCS11")
        self.module = next(each for each in _MODULES if each.exists())
        tokens, settings = folder / "tokens", folder / "softhsm2.conf"
        tokens.mkdir(parents=True)
        settings.write_text(f"directories.tokendir = {tokens}\n", encoding="utf-8")
        self.pin_file = folder / "pin"
        self.pin_file.write_text(f"{PIN}\n", encoding="utf-8")
        self.pin_file.chmod(0o600)
        monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
        _done("softhsm2-util", "--init-token", "--free", "--label", "a token", "--pin", PIN, "--so-pin", PIN)
        _done(
            *("pkcs11-tool", "--module", str(self.module), "--token-label", "a token", "--login", "--pin", PIN),
            *("--keypairgen", "--key-type", "rsa:2048", "--label", label, "--id", "01"),
        )
        self._tokens = tokens

    def unplug(self) -> None:
        """Take the token away."""
        self._tokens.rename(self._tokens.with_name("elsewhere"))
        self._tokens.mkdir()

    def plug_in(self) -> None:
        """Bring it back."""
        self._tokens.rmdir()
        self._tokens.with_name("elsewhere").rename(self._tokens)


def need_systemd_creds() -> None:
    """Go on where root may call systemd-creds."""
    _need_programs("systemd", "systemd-creds")
    need("" if os.geteuid() == 0 else "systemd seals keys for root only")


def _done(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=GUARD_S)


def holds(folder: Path, secret: bytes) -> list[str]:
    """Return the files below a folder that hold a secret, in bytes or in digits."""
    texts = (secret, secret.hex().encode())
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if any(text in path.read_bytes() for text in texts))
