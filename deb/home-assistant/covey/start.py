"""Start the Home Assistant add-on: prepare Covey as the options say, then run relay, collector, door and page.

1. Root only prepares. The programs run as the user `covey`, and do not see the Supervisor's token in their environment.
2. What the options say replaces what they said at the last start: it is a file of its own, next to config.toml.
3. What Home Assistant gives out (the broker's password, the token) is in /run/covey, which no backup contains.
4. The collector starts once the relay answers, the others once there is a vault. A program that ends starts again; a
   relay or collector that refuses its configuration ends the add-on.
5. Home Assistant sends lines to standard input (`hassio.addon_stdin`): one of `COMMANDS`, or the answer to an invite.
"""

from __future__ import annotations

import ipaddress
import json
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, "/usr/lib/covey")

from covey.config.settings import setting, toml_value
from covey.errors import ConfigurationError

DATA, STATE, RUN = Path("/data"), Path("/data/covey"), Path("/run/covey")
HOSTS = Path("/etc/hosts")
COVEY = "/usr/bin/covey"
RELAY_PORT, PAGE_PORT = 8893, 8099
REFUSED = 78
COMMANDS = {
    "invite": ("invite", "--no-qr"),
    "cancel": ("invite", "--cancel"),
    "check": ("check",),
    "fleet": ("fleet",),
}
_SUPERVISOR = "http://supervisor"
_ANSWERS_S = 10.0
_ENDS_S = 20.0
_PAUSE_S_MIN, _PAUSE_S_MAX = 1.0, 60.0
_LONG_S = 60.0
_LOOK_S = 0.5
_LINE_BYTES = 1_024


class Program:
    """One program, which starts again when it ends."""

    def __init__(self, words: Sequence[str], user: pwd.struct_passwd, *, is_essential: bool) -> None:
        self.words, self.is_essential = words, is_essential
        self._user = user
        self._pause_s, self._began, self._next = _PAUSE_S_MIN, 0.0, 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def look_after(self) -> bool:
        """Start it if it is due; return False if it has refused its configuration."""
        now = time.monotonic()
        if self.process is not None and (code := self.process.poll()) is not None:
            self.process = None
            print(f"covey {self.words[0]} ended with {code}", flush=True)
            self._pause_s = _PAUSE_S_MIN if now - self._began > _LONG_S else min(2 * self._pause_s, _PAUSE_S_MAX)
            self._next = now + (_PAUSE_S_MAX if code == REFUSED else self._pause_s)
            if code == REFUSED and self.is_essential:
                return False
        if self.process is None and now >= self._next:
            self._began = now
            self.process = start(self.words, self._user)
        return True


def main() -> int:
    """Prepare, then run until SIGTERM; return the exit code."""
    user = pwd.getpwnam("covey")
    options = json.loads((DATA / "options.json").read_text())
    try:
        prepare(options, user)
        programs = [Program(words, user, is_essential=index < 2) for index, words in enumerate(wanted(options, user))]
    except ConfigurationError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return REFUSED
    ended: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _frame: ended.append(number))
    desk, due = Desk(user), 1
    try:
        while not ended:
            if due == 1 and relay_answers():
                due = 2
            if due == 2 and (STATE / "vault.key").exists():
                due = len(programs)
            if not all(each.look_after() for each in programs[:due]):
                return REFUSED
            desk.listen(_LOOK_S)
    finally:
        stop([desk.process, *(each.process for each in reversed(programs))])
    return 0


def relay_answers() -> bool:
    """Return whether the relay accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", RELAY_PORT), _LOOK_S).close()
    except OSError:
        return False
    return True


def prepare(options: Mapping[str, Any], user: pwd.struct_passwd) -> None:
    """Make this a device if it is none yet, and write what the options say.

    Raises:
        ConfigurationError: an option names no setting, or has a value that is none of it.
    """
    STATE.mkdir(mode=0o700, exist_ok=True)
    os.chown(STATE, user.pw_uid, user.pw_gid)
    reach_itself(options["hosts"][0])
    if not (STATE / "identity.key").exists():
        run(["init", "--label", options["label"]], user)
    write(STATE / "conf.d/home-assistant.toml", "".join(configuration(options, user)), user)
    if run(["config", "get", "operations.operators"], user).strip() == "[]":
        shown = json.loads(run(["key", "show", "--json"], user))
        run(["config", "set", "operations.operators", shown["signing_key"]], user)


def reach_itself(host: str) -> None:
    """Have the name by which devices reach this machine lead to this container, in this container."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        line, known = f"127.0.0.1\t{host}\n", HOSTS.read_text() if HOSTS.exists() else ""
        if line not in known:
            HOSTS.write_text(known + line)


def configuration(options: Mapping[str, Any], user: pwd.struct_passwd) -> list[str]:
    """Return lines of a configuration file: the further settings, and the door to Home Assistant.

    Raises:
        ConfigurationError: as `prepare`.
    """
    lines = ["# The options of the add-on, written at each start.\n"]
    for each in options["settings"]:
        found = setting(each["name"], "option settings: ")
        lines.append(f"{each['name']} = {toml_value(found.read(each['value'], each['name']))}\n")
    broker = ask("/services/mqtt") if options["forward"] else None
    if options["forward"] and broker is None:
        print("Home Assistant has no MQTT broker: readings are stored, and not shown there", flush=True)
    if broker is None:
        return lines
    write(RUN / "home.password", broker.get("password", ""), user)
    door = {"name": "home", "kind": "home-assistant", "url": address(broker), "start": "all"}
    if broker.get("username"):
        door["password_file"] = str(RUN / "home.password")
    if options["history"]:
        write(RUN / "supervisor.token", os.environ["SUPERVISOR_TOKEN"], user)
        door |= {"history_url": f"{_SUPERVISOR}/core", "token_file": str(RUN / "supervisor.token")}
    return [*lines, "[[door]]\n", *(f"{name} = {toml_value(value)}\n" for name, value in door.items())]


def address(broker: Mapping[str, Any]) -> str:
    """Return the URL of Home Assistant's broker."""
    who = f"{broker['username']}@" if broker.get("username") else ""
    return f"{'mqtts' if broker.get('ssl') else 'mqtt'}://{who}{broker['host']}:{broker['port']}"


def wanted(options: Mapping[str, Any], user: pwd.struct_passwd) -> list[list[str]]:
    """Return the programs that the options ask for: relay and collector first."""
    named = [word for host in options["hosts"] for word in ("--host", host)]
    mapped = ((ask("/addons/self/info") or {}).get("network") or {}).get(f"{RELAY_PORT}/tcp", RELAY_PORT)
    if mapped != RELAY_PORT:
        print(f"devices cannot connect: in the add-on's network settings, enter {RELAY_PORT}", flush=True)
    supervisor = socket.gethostbyname("supervisor")
    programs = [
        ["relay", "serve", "--port", str(RELAY_PORT), *named],
        ["collect", "--new-group", "--no-sensors"],
        ["dashboard", "--listen", f"0.0.0.0:{PAGE_PORT}", "--proxy", supervisor],
    ]
    if options["read_only"]:
        programs[-1].append("--read-only")
    if json.loads(run(["door", "list", "--json"], user) or "[]"):
        programs.append(["door", "run"])
    return programs


def ask(path: str) -> Any:
    """Return what the Supervisor answers; None if it has nothing of that."""
    request = urllib.request.Request(f"{_SUPERVISOR}{path}")  # noqa: S310 - http alone
    request.add_header("Authorization", f"Bearer {os.environ['SUPERVISOR_TOKEN']}")
    try:
        with urllib.request.urlopen(request, timeout=_ANSWERS_S) as answer:  # noqa: S310
            return json.load(answer)["data"]
    except (OSError, ValueError, KeyError):
        return None


class Desk:
    """Runs the commands that Home Assistant sends, one at a time; other lines answer the one that runs."""

    def __init__(self, user: pwd.struct_passwd) -> None:
        self._user = user
        self._is_open = True
        self._rest = b""
        self.process: subprocess.Popen[bytes] | None = None

    def listen(self, seconds: float) -> None:
        """Take what was sent within so long."""
        if not self._is_open or not select.select([sys.stdin], [], [], seconds)[0]:
            time.sleep(0 if self._is_open else seconds)
            return
        got = os.read(sys.stdin.fileno(), _LINE_BYTES)
        self._is_open = bool(got)
        *lines, self._rest = (self._rest + got)[-_LINE_BYTES:].split(b"\n")
        for line in lines:
            self._take(text_of(line))

    def _take(self, text: str) -> None:
        is_busy = self.process is not None and self.process.poll() is None
        if text in COMMANDS and (not is_busy or text == "cancel"):
            process = start(COMMANDS[text], self._user, stdin=subprocess.PIPE)
            self.process = self.process if is_busy else process
        elif is_busy and self.process is not None and self.process.stdin is not None:
            try:
                self.process.stdin.write(f"{text}\n".encode())
                self.process.stdin.flush()
            except OSError:  # it has ended meanwhile
                print("the command has ended", flush=True)
        elif text:
            print(f"unknown command; known are: {', '.join(COMMANDS)}", flush=True)


def text_of(line: bytes) -> str:
    """Return a line's text. Home Assistant sends a text as JSON."""
    text = line.decode(errors="replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def start(words: Sequence[str], user: pwd.struct_passwd, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a command of Covey's as its user."""
    return subprocess.Popen([COVEY, *words], stdin=stdin, env=environment(), **as_user(user))


def run(words: Sequence[str], user: pwd.struct_passwd) -> str:
    """Run a command that must succeed, and return what it printed.

    Raises:
        ConfigurationError: it failed, and has said why.
    """
    done = subprocess.run(
        [COVEY, *words], stdout=subprocess.PIPE, text=True, env=environment(), check=False, **as_user(user)
    )
    if done.returncode:
        raise ConfigurationError(f"covey {' '.join(words[:2])} failed", hint="see its message above")
    return str(done.stdout)


def environment() -> dict[str, str]:
    """Return what the programs get of this one's environment."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "COVEY_STATE") if name in os.environ}


def as_user(user: pwd.struct_passwd) -> dict[str, Any]:
    """Return what starts a process as a user."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": STATE}


def write(path: Path, text: str, user: pwd.struct_passwd) -> None:
    """Write a file that its user alone may read, whole or not at all."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    os.chown(path.parent, user.pw_uid, user.pw_gid)
    written = path.with_suffix(".new")
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        os.fsync(file.fileno())
    os.chown(written, user.pw_uid, user.pw_gid)
    written.replace(path)


def stop(processes: Sequence[subprocess.Popen[bytes] | None]) -> None:
    """End processes, by force if need be."""
    running = [each for each in processes if each is not None and each.poll() is None]
    for each in running:
        each.terminate()
    until = time.monotonic() + _ENDS_S
    for each in running:
        try:
            each.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()


if __name__ == "__main__":
    sys.exit(main())
