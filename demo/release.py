"""The release scene: one agent installs a broken file and rolls back; no other agent receives it.

The owners of all agents let operators install a model, which stays where their own check finds it good and a member
acknowledges what is sent after it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from covey.adapters.state_folder import StateFolder
from covey.app.wording import count
from covey.errors import TransientError
from demo.device import Device
from demo.fleet import ACTION, Fleet

_INSTALLER = "install-model"

_GOOD, _BAD = "a good model\n", "a broken one\n"
_CHECK = """#!/bin/sh
grep -q good "$1" && exit
echo "the model does not work"
exit 1
"""
_DEFINITION = """
summary = "take a model"
argv = ["covey", "installer", "file", "--to={target}", "--check={check}"]
seconds = 60
memory_mib = 1024

[installer]
trial_seconds = 60
"""


def let_install(device: Device) -> None:
    """Let a device's owner allow operators to install a model, and install a first one."""
    StateFolder.at(device.state).configuration.change({"operations.commands": (ACTION, _INSTALLER)})
    _model(device).write_text(_GOOD)
    check = device.state / "model-works"
    check.write_text(_CHECK)
    check.chmod(0o700)
    definition = device.state / "operations.d" / f"{_INSTALLER}.toml"
    definition.parent.mkdir(mode=0o700, exist_ok=True)
    definition.write_text(_DEFINITION.format(target=_model(device), check=check))
    definition.chmod(0o600)


def release_and_go_back(fleet: Fleet, say: Callable[[str], None]) -> None:
    """Release a broken file.

    Raises:
        TransientError: it came to more than one agent, or stayed.
    """
    path = fleet.folder / "model.bin"
    path.write_text(_BAD)
    say(f"the operator releases a broken model to {len(fleet.agents)} agents, one of them first")
    whom = ",".join(device.author for device in fleet.agents)
    words = ("--for", whom, "--installer", _INSTALLER, "--waves", "1,100%", "--soak", "0s", "--patience", "1m")
    done = fleet.collector.covey("release", "create", str(path), *words)
    releases = fleet.collector.json("release", "list")
    if done.returncode != 1 or not releases or releases[-1]["state"] != "stopped" or len(releases[-1]["devices"]) != 1:
        raise TransientError("the release did not stop at its first wave", hint=(done.stdout + done.stderr)[-500:])
    [outcome] = releases[-1]["devices"]
    if outcome["outcome"] != "failed":
        raise TransientError("the agent did not try the model", hint=outcome["why"])
    say(f"  {outcome['name']} {outcome['label']}: {outcome['why']}")
    if any(_model(device).read_text() != _GOOD for device in fleet.agents):
        raise TransientError("an agent is not on the model of before", hint="the logs are next to the devices' folders")
    others = releases[-1]["others"]
    say(f"  the release stopped: {count(others, 'other agent')} never received it; all run the previous model")


def _model(device: Device) -> Path:
    return device.state / "model"
