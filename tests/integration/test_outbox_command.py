"""`covey message`: files on a stick between devices that never meet, verify, quarantine; all through the command."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from covey.app.device.device import find_state, open_device
from covey.cli.main import main
from covey.core.ids import Place
from covey.core.wire.message import read_message
from tests.durable import DurableDevice, folder_for
from tests.fleet import Device, carry, found

_NAMES = ("ann", "ben")


class Shell:
    """Two devices of one group with state folders, and a stick."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.stick = folder / "stick"
        self.states = {name: folder / name for name in (*_NAMES, "stranger")}
        for name, state in self.states.items():
            assert main(["init", "--state", str(state), "--label", name]) == 0
        self.capsys()

    def capsys(self) -> tuple[str, str]:
        """Take what was printed."""
        captured = self._capsys.readouterr()
        return captured.out, captured.err

    def run(self, name: str, *words: str) -> tuple[int, Any]:
        """Run a command on a device's state; return its code and what it printed as JSON."""
        code = main([*words, "--json", "--state", str(self.states[name])])
        out, _ = self.capsys()
        return code, json.loads(out) if out.strip() else None

    def queue(self, name: str, text: str) -> None:
        """Send a text to everybody."""
        assert self.run(name, "message", "send", "--text", text)[0] == 0

    def inbox(self, name: str, *how: str) -> list[str]:
        """Take what has come."""
        import base64

        texts: list[str] = []
        while True:
            code, blob = self.run(name, "message", "receive", *how)
            if code:
                return texts
            texts.append(base64.b64decode(blob["body"]).decode())


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Put two state folders into one group over a perfect wire."""
    made = Shell(tmp_path, capsys)
    from covey.adapters.state_folder import StateFolder

    class Housed(Device):
        """A fleet's device in a state folder."""

        def restart(self) -> None:
            self.nodes.identity = StateFolder.at(self.path).identity()
            self.path = self.path / "state.sqlite"
            super().restart()

    ann, ben = Housed("ann", tmp_path), Housed("ben", tmp_path)
    found(ann, ben)
    carry(ann, ben)
    ann.store.close()
    ben.store.close()
    return made


def test_a_stick_carries_messages_and_acknowledgements(shell: Shell) -> None:
    for number in range(5):
        shell.queue("ann", f"text {number}")
    shell.queue("ben", "hello ann")
    code, done = shell.run("ann", "message", "export", str(shell.stick))
    assert code == 0
    assert done["recipients"][0]["messages"] == 5
    assert {stat.S_IMODE(each.stat().st_mode) for each in shell.stick.rglob("*") if each.is_file()} == {0o600}
    code, done = shell.run("ben", "message", "import", str(shell.stick))
    assert code == 0
    assert done["total"]["taken"] >= 5
    assert shell.inbox("ben") == [f"text {number}" for number in range(5)]
    assert shell.run("ann", "message", "ls")[1]["messages"] == 5

    assert shell.run("ben", "message", "export", str(shell.stick / "back"))[0] == 0
    assert shell.run("ann", "message", "import", str(shell.stick / "back"))[0] == 0
    assert shell.run("ann", "message", "ls")[1]["messages"] == 0
    assert shell.inbox("ann") == ["hello ann"]

    assert shell.run("ann", "message", "export", str(shell.stick / "third"))[0] == 0
    assert shell.run("ben", "message", "import", str(shell.stick / "third"))[0] == 0
    assert shell.run("ben", "message", "ls")[1]["messages"] == 0


def test_a_file_may_come_twice_damaged_or_to_the_wrong_device(shell: Shell) -> None:
    for number in range(30):
        shell.queue("ann", f"text {number}")
    shell.run("ann", "message", "export", str(shell.stick))
    code, done = shell.run("stranger", "message", "import", str(shell.stick))
    assert code == 1
    assert done["total"]["taken"] == 0
    assert done["files"][0]["for"]
    assert done["total"]["not_for_us"] >= 30

    [messages] = [path for path in shell.stick.glob("*.covey") if "answers" not in path.name]
    whole = messages.read_bytes()
    damaged = bytearray(whole)
    for place in range(3_000, len(whole), 4_000):
        damaged[place] ^= 0x10
    messages.write_bytes(damaged)
    code, done = shell.run("ben", "message", "import", str(messages))
    assert code == 1
    assert done["total"]["damaged"] >= 1
    assert 15 <= done["total"]["taken"] < 30
    messages.write_bytes(whole[: len(whole) // 2])
    assert shell.run("ben", "message", "import", str(messages))[1]["total"]["damaged"] == 1
    messages.write_bytes(whole)
    for _ in range(2):
        assert shell.run("ben", "message", "import", str(messages))[0] == 0
    assert sorted(shell.inbox("ben")) == sorted(f"text {number}" for number in range(30))


def test_a_sender_is_read_in_its_order_where_asked(shell: Shell) -> None:
    for number in range(30):
        shell.queue("ann", f"text {number:02}")
    assert shell.run("ann", "message", "send", "--text", "for some days", "--expires", "2d")[0] == 0
    shell.run("ann", "message", "export", str(shell.stick))
    [messages] = [path for path in shell.stick.glob("*.covey") if "answers" not in path.name]
    assert messages.stat().st_mode & 0o777 == 0o600  # who writes to whom is nobody else's business
    whole = messages.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0x10
    messages.write_bytes(damaged)
    shell.run("ben", "message", "import", str(messages))
    before = shell.inbox("ben", "--in-order")
    assert before == [f"text {number:02}" for number in range(len(before))]
    assert 5 < len(before) < 25
    messages.write_bytes(whole)
    shell.run("ben", "message", "import", str(messages))
    after = [f"text {number:02}" for number in range(len(before), 30)]
    assert shell.inbox("ben", "--in-order") == [*after, "for some days"]


def test_a_lifetime_is_a_duration(shell: Shell) -> None:
    assert shell.run("ann", "message", "send", "--text", "x", "--expires", "soon")[0] == 2
    assert shell.run("ann", "message", "ls")[1]["messages"] == 0


def test_an_export_that_was_interrupted_goes_on(shell: Shell) -> None:
    shell.queue("ann", "one")
    shell.run("ann", "message", "export", str(shell.stick))
    [messages] = [path for path in shell.stick.glob("*.covey") if "answers" not in path.name]
    written = messages.stat().st_mtime_ns
    assert shell.run("ann", "message", "export", str(shell.stick))[0] == 0
    assert messages.stat().st_mtime_ns == written
    assert not list(shell.stick.glob(".*"))


def test_quarantine_shows_releases_and_drops(shell: Shell) -> None:
    from covey.adapters.state_folder import StateFolder
    from covey.config.schema import Config

    for text in ("one", "two"):
        shell.queue("ann", text)
    folder = StateFolder.at(shell.states["ann"])
    with_state = folder.store(Config(), folder.identity())
    [recipient] = with_state.outbox.recipients()
    with with_state.transaction():
        for place, _ in with_state.outbox.queued(recipient, Place(0), 10, 10_000):
            with_state.outbox.withdraw(recipient, place, "too_large", 5)
    with_state.close()
    held = shell.run("ann", "message", "quarantine")[1]
    assert [(each["way"], each["type"], each["why"]) for each in held] == [("out", "blob", "too_large")] * 2
    one = shell.run("ann", "message", "quarantine", str(held[0]["number"]))[1]
    assert read_message(bytes.fromhex(one["message"])).body == b"one"
    assert shell.run("ann", "message", "quarantine", str(held[0]["number"]), "--retry")[0] == 0
    assert shell.run("ann", "message", "quarantine", str(held[1]["number"]), "--delete", "--yes")[0] == 0
    assert shell.run("ann", "message", "quarantine")[1] == []
    assert shell.run("ann", "message", "quarantine", "77")[0] == 1
    shell.run("ann", "message", "export", str(shell.stick))
    shell.run("ben", "message", "import", str(shell.stick))
    assert shell.inbox("ben") == ["one"]


def test_verify_finds_damage_and_repairs(shell: Shell) -> None:
    for number in range(300):
        if number < 3:
            shell.queue("ann", f"text {number}")
    assert shell.run("ann", "check", "database") == (
        0,
        {"sound": True, "complaints": [], "repaired": False, "salvages": []},
    )
    path = shell.states["ann"] / "state.sqlite"
    content = bytearray(path.read_bytes())
    place = content.index(b"text 1")
    content[place] ^= 0xFF
    path.write_bytes(content)
    code, reported = shell.run("ann", "check", "database")
    assert code == 1
    assert reported["complaints"] == ["a message that waits is not what was written"]
    code, reported = shell.run("ann", "check", "database", "--repair")
    assert code == 0
    assert reported["repaired"]
    assert reported["salvages"][0]["lost"]["outbox"] == 1
    assert (shell.states["ann"] / reported["salvages"][0]["aside"]).exists()
    _, status = shell.run("ann", "status")
    assert status["salvage"]["lost"]["outbox"] == 1
    assert status["salvage"]["file"] == reported["salvages"][0]["aside"]
    assert shell.run("ben", "status")[1]["salvage"] is None
    assert shell.run("ann", "check", "database")[1]["sound"]
    assert shell.run("ann", "message", "ls")[1]["messages"] == 2
    shell.run("ann", "message", "export", str(shell.stick))
    shell.run("ben", "message", "import", str(shell.stick))
    assert shell.inbox("ben") == ["text 0", "text 2"]


def test_a_restored_copy_is_a_new_incarnation_and_nothing_comes_twice(tmp_path: Path) -> None:
    """The whole state is put back as it was: what waited then is sent as it was signed."""
    folder = folder_for(tmp_path, "devices")
    ann, ben = DurableDevice("ann", folder), DurableDevice("ben", folder)
    group_id = found(ann, ben)
    ann.blob(group_id, b"before")
    ann.stop()
    copy = ann.files()
    ann.restart()
    first = ann.store.incarnations.present()
    ann.blob(group_id, b"lost with the old life, but for whom it was, it came")
    carry(ann, ben)
    ann.stop()
    ann.put_files(copy)
    ann.restart()
    assert ann.store.incarnations.present() != first
    ann.blob(group_id, b"after")
    carry(ann, ben)
    assert ben.inbox() == [b"before", b"lost with the old life, but for whom it was, it came", b"after"]
    assert ann.store.outbox.totals()[0] == 0
    ann.stop()
    ben.stop()


def test_a_card_that_was_written_back_is_noticed_by_what_others_hold(tmp_path: Path) -> None:
    """The same inode, the same mark: only a recipient's acknowledgement shows it. What came later is sent anew."""
    folder = folder_for(tmp_path, "devices")
    ann, ben = DurableDevice("ann", folder), DurableDevice("ben", folder)
    group_id = found(ann, ben)
    carry(ann, ben)
    ann.stop()
    copy = ann.files()
    ann.restart()
    first = ann.store.incarnations.present()
    for number in range(3):
        ann.blob(group_id, b"lost life %d" % number)
    carry(ann, ben)
    ann.stop()
    ann.put_files(copy, in_place=True)
    ann.restart()
    assert ann.store.incarnations.present() == first
    ann.blob(group_id, b"after")
    carry(ann, ben)
    assert ann.store.incarnations.present() != first
    assert ben.inbox()[-1] == b"after"
    assert len(ben.inbox()) == 4
    assert ann.store.outbox.totals()[0] == 0
    ann.stop()
    ben.stop()


def test_status_names_messages_in_quarantine(shell: Shell) -> None:
    with open_device(find_state(str(shell.states["ann"]), None)) as device, device.store.transaction():
        device.store.quarantine.add("too_large", b"a message", 1, device.node.identity.signing_public)
    assert "1 message in quarantine: covey message quarantine (" in str(shell.run("ann", "status")[1]["troubles"])
