"""An operator's device, and devices that let it install things on trial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

_PUMP = r"""#!/bin/sh
# Installs the pump's program; a file wait-STEP has that step wait.
cd {state} || exit 1
echo "$1" >> steps
end_agent() {{ kill "$(sed 's/.*) . \([0-9]*\) .*/\1/' /proc/$PPID/stat)"; sleep 600; }}
case "$1" in
install)
    test -e kept || {{ cp {target} kept.new && mv kept.new kept; }}
    cat > next && while test -e wait-install; do sleep 0.1; done && mv next {target}
    {after} ;;
confirm)
    while test -e wait-confirm; do sleep 0.1; done
    grep -q good {target} || exit 1
    rm -f kept ;;
rollback)
    test -e kept || exit 0
    cp kept next && mv next {target}
    while test -e wait-rollback; do sleep 0.1; done
    rm kept
    {after} ;;
version) head -n 1 {target} ;;
esac
"""
_DEFINITION = """
summary = "install the pump's program"
argv = [{argv}]
ends = "{ends}"
seconds = 300
memory_mib = 1024
[installer]
trial_seconds = {trial}
"""
_FAST = ("--soak", "0s", "--patience", "3m")


class Fleet:
    """An operator's device, and some that let it install things."""

    def __init__(
        self,
        new_gateway: Callable[[str], Gateway],
        folder: Path,
        names: tuple[str, ...],
        deputies: tuple[str, ...] = (),
        threshold: int = 1,
    ) -> None:
        """`deputies` are further operators, and `threshold` how many of all have to agree."""
        self._folder = folder
        self.hub, *self.sheds = [new_gateway(name) for name in ("hub", *names)]
        self.deputies = [new_gateway(name) for name in deputies]
        keys = ",".join(each.json("key", "show")["signing_key"] for each in (self.hub, *self.deputies))
        for each in (self.hub, *self.deputies, *self.sheds):
            each.ok("config", "set", "operations.operators", keys)
            each.ok("config", "set", "operations.threshold", str(threshold))
        for each in self.sheds:
            each.ok("config", "set", "operations.commands", "pump")
        self.hub.ok("group", "create")
        self.hub.start("run", "--no-sensors")
        for each in (*self.deputies, *self.sheds):
            self.hub.invite(each)

    def define(self, shed: Gateway, *argv: str, ends: str = "", trial: int = 300) -> None:
        action = shed.state / "operations.d" / "pump.toml"
        action.parent.mkdir(mode=0o700, exist_ok=True)
        action.write_text(_DEFINITION.format(argv=", ".join(f'"{word}"' for word in argv), ends=ends, trial=trial))
        action.chmod(0o600)

    def define_pump(self, shed: Gateway, target: str = "pump", after: str = "", **how: Any) -> None:
        """Have a device install the pump's program by one of its owner's own."""
        script = shed.state / "pump-installer"
        script.write_text(_PUMP.format(state=shed.state, target=target, after=after))
        script.chmod(0o700)
        (shed.state / "pump").write_text("good 1\n")
        self.define(shed, str(script), **how)

    def start(self) -> None:
        for each in (*self.deputies, *self.sheds):
            each.start("run", "--no-sensors")
        log = self.hub.ok
        wait_until(lambda: log("history", "log", "--json").count("obeying") == len(self.sheds), "all obey")

    def file(self, content: str) -> str:
        path = self._folder / "content"
        path.write_text(content)
        return str(path)

    def release(self, content: str, *words: str, code: int) -> dict[str, Any]:
        """Release something, which is to end with a code; return the release that it has printed last."""
        done = self.hub.covey("release", "create", self.file(content), "--installer", "pump", *_FAST, *words)
        assert done.returncode == code, (done.stdout, done.stderr)
        found = self.hub.json("release", "list")[-1]
        assert isinstance(found, dict)
        return found

    def order(self, content: str) -> str:
        """Have all install something, and return the order's id."""
        given = self.hub.json("file", "put", self.file(content), "--for", "label:shed", "--action", "pump")
        return str(given["order"]["id"])

    def outcome(self, order: str, *, restart: bool = False) -> tuple[str, str, str]:
        """Wait for what becomes of an order on the first device; return (outcome, code, why)."""
        shed, found = self.sheds[0], {}

        def is_over() -> bool:
            nonlocal found
            if restart and shed.ended_by_itself:  # as a service manager does
                shed.end()
                shed.start("run", "--no-sensors")
            [found] = self.hub.json("order", "show", order)["devices"]
            return found["outcome"] not in {"waiting", "asleep"}

        wait_until(is_over, "it has reported", idle_s=60)
        return found["outcome"], found["code"], found["why"]
