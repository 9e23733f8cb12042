"""Covey updates itself on trial, from a wheel into a slot of its own, and goes back where that is no good."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.app import shipped_files
from tests.examples import parameters
from tests.integration.gateway import Gateway
from tests.integration.installing import Fleet
from tests.meta.source_tree import ROOT
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_DAEMON, _MIGRATIONS = "covey/app/agent/daemon.py", "covey/adapters/sqlite/migrations.py"
_OLD, _NEW = "1.0", "2.0"


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    """The tree as a wheel."""
    [found] = archives.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def first(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A slot with the old version, to be copied: building one takes as long as an update."""
    folder = tmp_path_factory.mktemp("first")
    environment = folder / "slot"
    venv.create(environment, with_pip=False)
    [packages] = environment.glob("lib/python*/site-packages")
    [ours] = [each for each in sys.path if each.endswith("site-packages")]
    (packages / "further.pth").write_text(f"{ours}\n")
    pip = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--ignore-installed")
    subprocess.run([environment / "bin" / "python", *pip, str(_version(wheel, _OLD, folder))], check=True)
    return environment


def _version(wheel: Path, version: str, target: Path, changed: Mapping[str, bytes] | None = None) -> Path:
    """Write a wheel once more as one of another version, with some files changed; return it."""
    before = wheel.name.split("-")[1]
    path = target / f"covey-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as read, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        for name in read.namelist():
            content = (changed or {}).get(name, read.read(name))
            if name.endswith("dist-info/METADATA"):
                content = re.sub(rb"(?m)^Version: .*$", b"Version: " + version.encode(), content, count=1)
            if name.endswith("dist-info/RECORD"):
                lines = content.decode().splitlines()
                content = "\n".join(line.split(",")[0] + ",," for line in lines).encode()
                content = content.replace(f"covey-{before}".encode(), f"covey-{version}".encode())
            written.writestr(name.replace(f"covey-{before}", f"covey-{version}"), content)
    return path


def _with(name: str, code: str) -> Mapping[str, bytes]:
    """Return a file of the tree with more code at its end."""
    return {name: (ROOT / "agent" / name).read_bytes() + f"\n\n{code}\n".encode()}


class Slotted(Gateway):
    """A device whose agent runs from a slot, as its service manager starts it."""

    def lay_out(self, first: Path) -> None:
        """Make the folder with the slots, of which the first one is a copy of this one."""
        self.slots = self.state.parent / f"{self.name}-slots"
        self.slots.mkdir()
        shutil.copytree(first, self.slots / "a", symlinks=True)
        program = self.slots / "a" / "bin" / "covey"
        program.write_text(program.read_text().replace(str(first), str(self.slots / "a")))
        (self.slots / "current").symlink_to("a")
        launch = self.slots / "launch"
        launch.write_text(shipped_files.read("systemd/launch"))
        launch.chmod(0o755)
        self.program = (str(launch),)

    @property
    def running(self) -> str:
        """The slot that the link names."""
        return str((self.slots / "current").readlink())

    def version(self) -> str:
        """Return the version in the slot that the link names."""
        [found] = (self.slots / self.running).glob("lib/python*/site-packages/covey-*.dist-info")
        return found.name.removeprefix("covey-").removesuffix(".dist-info")

    def is_at(self, moment: str, since: int) -> bool:
        """Say whether something lies beside the slots, or a step was begun after so many bytes of the log."""
        return moment in self.states() or f"pump: {moment}\n".encode() in self.log.read_bytes()[since:]

    def states(self) -> set[str]:
        """Return what lies beside the slots on the way."""
        return {each.name for each in self.slots.iterdir()} - {"a", "b", "current", "launch"}


class Site(Fleet):
    """Devices with slots, and who tells them to update."""

    def __init__(self, broker: Broker, folder: Path, wheel: Path, first: Path, names: tuple[str, ...]) -> None:
        self.slotted = [Slotted(folder, name, broker) for name in names]
        self.shed = self.slotted[0]
        made = iter([Gateway(folder, "hub", broker), *self.slotted])
        super().__init__(lambda _name: next(made), folder, names)
        self._wheel, self._wheels = wheel, folder
        for each in self.slotted:
            each.lay_out(first)
            self.define(each, "covey", "installer", "covey", f"--slots={each.slots}", ends="agent")
        self.start()

    def release_version(self, version: str, killed_at: Mapping[Slotted, Sequence[str]]) -> list[str]:
        """Release a version to all, kill some agents at some moments, and return what each device says at the end."""
        path = _version(self._wheel, version, self._wheels)
        moments = {each: [*names] for each, names in killed_at.items()}
        since = {each: each.log.stat().st_size for each in self.slotted}
        words = ("--installer", "pump", "--waves", "1,100%", "--stop-at", "100%", "--soak", "0s", "--patience", "10m")
        gives = self.hub.start_beside("release", "create", str(path), *words)

        def is_over() -> bool:
            for each in self.slotted:
                if moments.get(each) and each.is_at(moments[each][0], since[each]):
                    moments[each].pop(0)
                    each.end(signal.SIGKILL)
                    each.start("run", "--no-sensors")
                elif each.ended_by_itself:  # as a service manager does
                    each.end()
                    each.start("run", "--no-sensors")
            return gives.poll() is not None

        wait_until(is_over, "all have it, or say why not", idle_s=120)
        found = self.hub.json("release", "list")[-1]
        assert found["state"] == "finished", found
        assert not any(moments.values()), ("each was killed", moments, found)
        said = {each["device"]: each["why"] for each in found["devices"]}
        return [said[each.author] for each in self.slotted]

    def update(self, changed: Mapping[str, bytes] | None = None) -> str:
        """Order an update, and return the order's id."""
        path = _version(self._wheel, _NEW, self._wheels, changed)
        given = self.hub.json("file", "put", str(path), "--for", "label:shed", "--action", "pump")
        return str(given["order"]["id"])


@pytest.fixture
def new_site(broker: Broker, tmp_path: Path, wheel: Path, first: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*names: str) -> Site:
        made.append(Site(broker, tmp_path, wheel, first, names or ("shed",)))
        return made[-1]

    yield make
    for site in made:
        for each in (*site.slotted, site.hub):
            each.kill()


def test_covey_updates_itself(new_site: Callable[..., Site]) -> None:
    site = new_site()
    outcome, code, why = site.outcome(site.update(), restart=True)
    assert (outcome, code, why) == ("done", "", f"on covey {_NEW}")
    assert (site.shed.running, site.shed.states()) == ("b", set())


def test_a_version_whose_agent_does_not_start_is_taken_back_by_what_starts_it(new_site: Callable[..., Site]) -> None:
    site = new_site()
    outcome, code, why = site.outcome(
        site.update(_with(_DAEMON, "def run_agent(*_, **__):\n    raise SystemExit(1)")), restart=True
    )
    assert (outcome, code) == ("failed", "action_rolled_back"), why
    assert why == f"rolled back to covey {_OLD}: confirm ended with 1: the new version is not running; covey {_OLD} is"
    assert (site.shed.running, site.shed.states()) == ("a", set())


def test_an_update_that_cannot_start_or_roll_back_changes_nothing(
    new_site: Callable[..., Site],
) -> None:
    site = new_site()
    outcome, code, why = site.outcome(site.update(_with(_DAEMON, "import nothing_there")), restart=True)
    assert (outcome, code) == ("failed", "action_rolled_back")
    assert "No module named 'nothing_there'" in why
    converts = _with(_MIGRATIONS, "def oldest_reader():\n    return 9999")
    outcome, code, why = site.outcome(site.update(converts), restart=True)
    assert (outcome, code) == ("failed", "action_rolled_back")
    assert f"converts the state to a format that covey {_OLD} cannot read" in why
    assert site.shed.running == "a"


@pytest.mark.parametrize("moment", parameters(["incoming", "trial"], quick=0, plain=1))
def test_an_agent_that_is_killed_while_it_updates_itself_runs_the_old_or_the_new_and_says_which(
    new_site: Callable[..., Site], moment: str
) -> None:
    site = new_site()
    order = site.update()
    wait_until(lambda: moment in site.shed.states(), f"there is {moment}", idle_s=60)
    site.shed.end(signal.SIGKILL)
    site.shed.start("run", "--no-sensors")
    outcome, _code, why = site.outcome(order, restart=True)
    stays = outcome == "done"
    assert site.shed.running == ("b" if stays else "a")
    assert why.startswith(f"on covey {_NEW}" if stays else f"rolled back to covey {_OLD}: "), why
    assert moment == "trial" or not stays
    assert site.shed.states() == set()


@pytest.mark.parametrize("releases", parameters([1, 3], quick=0, plain=1))
def test_three_agents_update_themselves_by_release_and_back_while_they_are_killed(
    new_site: Callable[..., Site], releases: int
) -> None:
    """Who is killed while the new version is built stays on the old one, and says so; the next release brings it."""
    site = new_site("one", "two", "three")
    one, two, three = site.slotted
    runs = dict.fromkeys(site.slotted, _OLD)
    rounds: tuple[tuple[str, dict[Slotted, tuple[str, ...]]], ...] = (
        (_NEW, {one: ("incoming", "rollback"), two: ("trial",), three: ("confirm",)}),
        ("1.1", {one: ("trial", "confirm"), three: ("incoming", "rollback")}),  # later than one's, earlier than others'
        ("0.9", {two: ("confirm", "version")}),
    )
    for version, killed_at in rounds[:releases]:
        said = site.release_version(version, killed_at)
        for each, why in zip(site.slotted, said, strict=True):
            stays = why == f"on covey {version}"
            assert stays or why.startswith(f"rolled back to covey {runs[each]}: "), (each.name, why)
            assert stays or each in killed_at, (each.name, why)
            runs[each] = version if stays else runs[each]
            assert (each.version(), each.states()) == (runs[each], set()), each.name
    assert releases < len(rounds) or [each.version() for each in site.slotted] == ["0.9"] * 3
