"""A machine with Home Assistant for an add-on: a Supervisor, a broker, and a network of its own. No Docker is there.

The add-on runs in its own root, by `chroot`, as `Dockerfile` says. The network belongs to the thread that makes it, and
to the processes and threads which that one starts; so the ports of a test are those of an add-on.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.house_api import TOKEN, HouseApi
from tests.house_broker import HouseBroker
from tests.waiting import GUARD_S, wait_until

SUPERVISOR = "172.30.32.2"
"""Its address in every installation."""

_ENTER = 'mount --bind /proc "$1/proc"; exec chroot "$@"'
_CLONE_NEWNET = 0x40000000
_Found = TypeVar("_Found")


def in_own_network(body: Callable[[], _Found]) -> _Found:
    """Run a function in a network with a loopback alone, where the Supervisor's address is this machine's, too."""

    def run() -> _Found:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "no network of its own")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "address", "add", f"{SUPERVISOR}/32", "dev", "lo"], check=True)
        return body()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


def own_network_missing() -> str | None:
    """Return why no network can be made here, or None."""
    if os.geteuid() != 0:
        return "chroot needs root"
    allowed = subprocess.run(["unshare", "--net", "ip", "link", "set", "lo", "up"], check=False, capture_output=True)
    return None if allowed.returncode == 0 else "no network namespaces here"


class Supervisor:
    """Home Assistant's Supervisor and its broker, as far as an add-on asks them."""

    def __init__(self, folder: Path) -> None:
        self.house, self.broker = HouseApi(), HouseBroker(folder)
        self.port = 8893
        """What the add-on's port is on the machine."""
        self._server = serve(self.house.serve_one, SUPERVISOR, 80, process_request=self._answer)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def _answer(self, _connection: ServerConnection, request: Request) -> Response | None:
        if "Upgrade" in request.headers:
            return None
        user, _, place = self.broker.url.removeprefix("mqtt://").partition("@")
        host, _, port = place.partition(":")
        known: dict[str, Any] = {
            "/services/mqtt": {
                "host": host,
                "port": int(port),
                "ssl": False,
                "username": user,
                "password": self.broker.password,
            },
            "/addons/self/info": {"network": {"8893/tcp": self.port}},
        }
        is_known = request.headers.get("Authorization") == f"Bearer {TOKEN}" and request.path in known
        found = {"result": "ok", "data": known[request.path]} if is_known else {"result": "error", "message": "no"}
        status = HTTPStatus.OK if is_known else HTTPStatus.BAD_REQUEST
        return Response(status, status.phrase, Headers({"Connection": "close"}), json.dumps(found).encode())

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self.broker.broker.stop()


class AddOn:
    """The add-on of a release: its files as they are on the machine, and its container."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Build the container's root as the add-on's Dockerfile says."""
        self.root, self.log, self.files = folder / "root", folder / "log", files
        self.environment = dict[str, str]()
        self.command = list[str]()
        self.process: subprocess.Popen[bytes] | None = None
        for line in files["Dockerfile"].decode().splitlines():
            self._build(line.replace("${BUILD_ARCH}", "amd64"))
        (self.root / "etc/hosts").write_text(f"127.0.0.1\tlocalhost\n{SUPERVISOR}\tsupervisor\n")
        (self.root / "data").mkdir(exist_ok=True)
        (self.root / "dev").mkdir(exist_ok=True)
        (self.root / "proc").mkdir(exist_ok=True)
        for name, minor in (("null", 3), ("urandom", 9)):
            os.mknod(self.root / "dev" / name, 0o20666, os.makedev(1, minor))
            (self.root / "dev" / name).chmod(0o666)

    def _build(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "ADD":
                source, _ = rest.split()
                with tarfile.open(fileobj=io.BytesIO(self.files[source])) as archive:
                    archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
                    archive.extractall(self.root)
            case "COPY":
                source, place = rest.split()
                (self.root / place.lstrip("/")).write_bytes(self.files[source])
            case "RUN":
                subprocess.run(["chroot", str(self.root), *json.loads(rest)], check=True)
            case "ENV":
                self.environment |= dict(each.split("=", 1) for each in rest.split())
            case "CMD":
                self.command = json.loads(rest)
            case _:
                assert not line or word in {"#", "FROM", "ARG", "WORKDIR"}, line

    def start(self, options: Mapping[str, Any]) -> None:
        """Start it with options, as the Supervisor does."""
        (self.root / "data/options.json").write_text(json.dumps(options))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-ec", _ENTER, "sh", str(self.root), *self.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**self.environment, "SUPERVISOR_TOKEN": TOKEN, "TZ": "UTC"},
            )

    def send(self, text: str) -> None:
        """Send a line, as the service `hassio.addon_stdin` does: a text is JSON."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(text).encode() + b"\n")
        self.process.stdin.flush()

    def said(self, pattern: str) -> str:
        """Wait until its log has a text, and return it, or its first group."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self.log.read_text(errors="replace"))

        def is_there() -> bool:
            assert found() or self.process is None or self.process.poll() is None, self.log.read_text()
            return found() is not None

        try:
            wait_until(is_there, f"the log says {pattern}")
        except AssertionError as error:
            raise AssertionError(self.log.read_text()) from error
        match = found()
        assert match is not None
        return match[match.lastindex or 0]

    def covey(self, *words: str) -> str:
        """Run a command in the container, as its user; return what it printed."""
        done = subprocess.run(
            ["chroot", "--userspec=64646:64646", str(self.root), "/usr/bin/covey", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def ended(self) -> int:
        """Wait until it has ended, and return the exit code."""
        assert self.process is not None
        return self.process.wait(GUARD_S)

    def stop(self) -> int:
        """Stop it as Docker does, and return the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.ended()

    def kill(self) -> None:
        """Leave nothing running."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(GUARD_S)
