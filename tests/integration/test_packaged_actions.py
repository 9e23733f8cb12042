"""What operators order of the packaged agent, by a real systemd: in a unit of its own, as root allows."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.debian_boot import Booted, booted, missing_for_boot
from tests.integration.debian_root import DebianRoot, need
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

_NEEDS = ("python3", "python3-nacl", "python3-cbor2", "python3-psutil", "python3-tomlkit", "systemd")
_AS_AGENT = ("setpriv", "--reuid=covey", "--regid=covey", "--init-groups")
_OF_THEIR_OWN = range(61_184, 65_520)
"""systemd's users who exist while their unit runs."""

_COMMANDS = """
[operations]
commands = ["look", "wait", "write", "hush", "gone", "journal", "reboot", "support-bundle", "restart-agent"]
"""
_LOOKS = "; ".join(
    [
        *("id --user", 'echo "$1"', "touch /etc/x /var/lib/covey/x", "head --bytes=0 /var/lib/covey/identity.key"),
        *("ls /proc/self/fd | wc --words", "(setsid sleep 3600 &)", "yes | head --bytes=100000 >&2", "exit 3"),
    ]
)
_LOOK = f"""
summary = "what a program sees of the machine"
argv = ["/bin/sh", "-c", '''{_LOOKS}''', "sh", "{{line}}"]
output_kib = 1
[arguments.line]
text = 40
characters = "abc $(){{}}HOME%n`;|<>\\\\\\"'"
"""
_WAIT = """
summary = "wait for ever, once"
argv = ["/bin/sh", "-c", "echo begun >>/var/lib/pump/lines; sleep {seconds}"]
seconds = {bound}
[arguments.seconds]
integer = [3000, 4000]
[unit]
user = "root"
writes = ["/var/lib/pump"]
"""
_HUSH = """
summary = "read a key"
argv = ["/bin/sh", "-c", 'read -r key; echo "got $key"; echo "$key" | tr a-z A-Z; cat; exec sleep 5']
input = "{key}\\nand the end\\n"
[arguments.key]
text = 63
characters = "abcdefghijklmnopqrstuvwxyz$ "
"""


class Site:
    """An operator on this machine, and the packaged agent on a machine of its own, who are in a group."""

    def __init__(self, system: Booted, root: DebianRoot, kim: Gateway) -> None:
        self.system, self.root, self.kim = system, root, kim

    def covey(self, *words: str, feed: str = "") -> str:
        """Run a command of the packaged agent's user."""
        return self.system.run(*_AS_AGENT, "covey", *words, feed=feed)

    def order(self, action: str, **arguments: str) -> str:
        """Order something; return the order."""
        words = [word for name, value in arguments.items() for word in ("--arg", f"{name}={value}")]
        return str(self.kim.json("order", "run", action, "--for", "label:shed", *words)["id"])

    def result(self, order: str) -> dict[str, Any]:
        """Return what has become of it."""
        found: list[dict[str, Any]] = []

        def has_come() -> bool:
            found[:] = self.kim.json("order", "show", order)["devices"]
            return [each["outcome"] in {"waiting", "asleep"} for each in found] == [False]

        wait_until(has_come, "the result comes")
        return found[0]

    def code(self, order: str) -> str:
        """Return its code, or its exit code."""
        result = self.result(order)
        return str(result["code"] or f"exit {result['exit']}")

    def output(self, order: str) -> str:
        """Return what its program wrote."""
        self.result(order)
        return b64decode(self.kim.json("order", "show", order, "--output", "shed")["output"]).decode()

    def check(self) -> dict[str, str]:
        """Return what `covey check` says of actions: how to mend it, by the first word of what it says."""
        said = self.system.run(*_AS_AGENT, "covey", "check", "--offline", "--json", code=None)
        found = [each for each in json.loads(said)["findings"] if each["check"] == "actions"]
        return {each["line"].partition(" ")[0].rstrip(":"): each["hint"] for each in found}

    def lines(self) -> list[str]:
        """Return what the program that waits has written: a line each time that it ran."""
        path = self.root.path / "var/lib/pump/lines"
        return path.read_text().splitlines() if path.exists() else []

    def sleeping(self) -> list[str]:
        """Return the programs that a test left running."""
        return [line for line in self.system.processes() if line.startswith("sleep ")]


@pytest.fixture
def root(tmp_path: Path, debian_package: Path) -> Iterator[DebianRoot]:
    need(missing_for_boot(_NEEDS))
    found = DebianRoot(tmp_path / "root", _NEEDS)
    found.dpkg("--install", str(debian_package))
    yield found
    shutil.rmtree(found.path)


def _write(root: DebianRoot, path: str, text: str) -> None:
    whole = root.path / path
    whole.parent.mkdir(exist_ok=True)
    whole.write_text(text)
    whole.chmod(0o644)


def _set_up(site: Site, broker: Broker) -> None:
    site.root.run("install", "-d", "/var/lib/pump")
    _write(site.root, "etc/covey/operations.d/look.toml", _LOOK)
    _write(site.root, "etc/covey/operations.d/hush.toml", _HUSH)
    _write(site.root, "etc/covey/operations.d/wait.toml", _WAIT.replace("{bound}", "3600"))
    _write(site.root, "etc/covey/operations.d/write.toml", _WAIT.replace("{bound}", "1"))
    _write(site.root, "etc/covey/conf.d/relay.toml", f'[relay]\nurl = "{broker.url}"\n')
    username = json.loads(site.covey("init", "--label", "shed", "--json"))["broker_username"]
    site.covey("relay", "set", "--password-file", "-", feed=broker.add_device(username))
    key = site.kim.json("key", "show")["signing_key"]
    for command in ("operations.operators", key), ("operations.commands", "look,wait,write,hush,gone,journal,reboot"):
        site.covey("config", "set", *command)
    site.kim.ok("config", "set", "operations.operators", key)
    site.kim.ok("group", "create")
    site.kim.start("run", "--no-sensors")
    site.covey("join", "-", feed=site.kim.ok("invite", "--no-wait"))
    site.system.run("systemctl", "start", "covey")
    wait_until(lambda: "obeying" in site.kim.ok("history", "log", "--json"), "the device obeys")


@pytest.mark.broker
def test_operators_have_done_what_root_allows_in_units(
    root: DebianRoot, broker: Broker, new_gateway: Callable[[str], Gateway]
) -> None:
    kim = new_gateway("kim")
    with booted(root) as system:
        site = Site(system, root, kim)
        _set_up(site, broker)
        _without_the_socket_they_are_children_of_the_agent(site)
        _the_agents_word_is_not_roots(site)
        _write(root, "etc/covey/conf.d/commands.toml", _COMMANDS)
        _a_program_has_a_sandbox(site)
        _a_secret_is_read_and_stands_nowhere(site)
        _what_runs_too_long_is_ended(site)
        _an_agent_that_is_killed_takes_it_along_and_says_unknown(site)
        reboot = site.order("reboot")
        system.goes_down()
    with booted(root):
        # Told before the agent ended, or found out by the next one: for whom it is the same boot, of the same kernel.
        assert site.code(reboot) in {"exit 0", "action_went_down"}


def _without_the_socket_they_are_children_of_the_agent(site: Site) -> None:
    assert site.system.run("systemctl", "is-enabled", "covey-action.socket", code=1).strip() == "disabled"
    look = site.order("look", line="a")
    assert site.code(look) == "exit 3", site.result(look)
    agent = (site.root.path / "var/lib/covey").stat().st_uid
    assert site.output(look).startswith(f"{agent}\na\n")
    assert site.check()["reboot"] == site.check()["journal"] == "sudo systemctl enable --now covey-action.socket"
    result = site.result(site.order("reboot"))
    assert (result["code"], "covey-action.socket" in result["why"]) == ("action_not_started", True)


def _the_agents_word_is_not_roots(site: Site) -> None:
    """The list in the agent's own state, which the agent's user can write, allows nothing here."""
    site.system.run("systemctl", "enable", "--now", "covey-action.socket")
    result = site.result(site.order("reboot"))
    assert (result["code"], "/etc/covey" in result["why"]) == ("action_not_allowed", True)
    assert "/etc/covey/conf.d" in site.check()["reboot"]


def _a_program_has_a_sandbox(site: Site) -> None:
    words = "a $HOME $(abc) ${HOME} `b` %n \\ \"' | >"
    look = site.order("look", line=words)
    assert site.code(look) == "exit 3"
    user, said, *rest = site.output(look).splitlines()
    assert (int(user) in _OF_THEIR_OWN, said) == (True, words)
    refusals = [line for line in rest if "touch" in line or "identity.key" in line]
    assert [line.rpartition(": ")[2] for line in refusals] == [
        "Read-only file system",
        "Permission denied",
        "Permission denied",
    ]
    assert "4" in rest, "stdin, stdout, stderr, and the folder that it lists"
    assert site.result(look)["cut"] is True
    assert site.sleeping() == [], "what it left behind has gone"
    assert "Covey actions" in site.output(site.order("journal", unit="covey-action.socket", lines="5"))
    assert site.code(site.order("gone")) == "action_not_defined"
    assert {*site.check()} == {"gone", "operators"}
    assert 'covey_commands_total{outcome="failed"} 2\n' in site.covey("metrics")


def _a_secret_is_read_and_stands_nowhere(site: Site) -> None:
    secret = "a key of $home"
    words = ("hush", "--for", "label:shed", "--secret", "key")
    order = str(site.kim.json("order", "run", *words, feed=f"{secret}\n")["id"])
    wait_until(site.sleeping, "it has read it")
    seen = [site.system.run("systemctl", "show", "covey-ordered.service"), *site.system.processes()]
    assert site.code(order) == "exit 0", site.result(order)
    assert site.output(order) == f"got ***\n{secret.upper()}\nand the end\n"
    assert not [each for each in (*seen, site.system.run("journalctl")) if secret in each]
    site.system.run("grep", "--recursive", "--devices=skip", secret, "/run", "/var/lib/covey", code=1)


def _what_runs_too_long_is_ended(site: Site) -> None:
    assert site.code(site.order("write", seconds="3000")) == "action_time"
    assert (site.lines(), site.sleeping()) == (["begun"], [])


def _an_agent_that_is_killed_takes_it_along_and_says_unknown(site: Site) -> None:
    order = site.order("wait", seconds="3001")
    wait_until(lambda: len(site.lines()) == 2, "it has begun")
    site.system.run("systemctl", "kill", "--signal=KILL", "covey")
    wait_until(lambda: site.sleeping() == [], "it goes with the agent")
    assert site.code(order) == "action_went_down"
    assert len(site.lines()) == 2
