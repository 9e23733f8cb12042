"""Check every model, and that SPIN finds each of its mistakes: `python -m docs.internals.models [MODEL ...]`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_TOOLS = ("spin", "gcc")


@dataclass(frozen=True)
class Model:
    """A Promela file: the definitions under which it must hold, and those under which SPIN must find a violation."""

    name: str
    holds: tuple[tuple[str, ...], ...]
    mutants: tuple[tuple[str, ...], ...]


MODELS = (
    Model(
        "custody",
        holds=((), ("NO_IMPRINTS",)),  # the second one is a board, whose acknowledgements name numbers alone
        mutants=(
            ("ACKNOWLEDGE_BEFORE_COMMIT",),
            ("CLOSE_ON_PUBACK",),
            ("NO_DEDUP",),
            ("FREE_BY_NUMBER",),
            ("SEQUENCES_IN_MEMORY",),
            ("SEQUENCE_REUSED", "NO_IMPRINTS"),
        ),
    ),
    Model(
        "membership",
        holds=((),),
        mutants=(("SETTLE_BY_ARRIVAL_ORDER",), ("SETTLED_FOR_GOOD",), ("NOTHING_IS_VOID",)),
    ),
    Model(
        "links",
        holds=((),),
        mutants=(
            ("KEY_SURVIVES_CRASH",),
            ("USE_BEFORE_ACKNOWLEDGED",),
            ("REPEAT_BY_LINK",),
            ("ACKNOWLEDGE_BEFORE_COMMIT",),
        ),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What SPIN found: the assertion that fails, empty where all states were searched and none does."""

    violated: str
    states: int


def check(model: Model, definitions: tuple[str, ...]) -> Outcome:
    """Search all states of a model.

    Raises:
        RuntimeError: SPIN or the compiler failed, or the search was not complete.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = (HERE / f"{model.name}.pml").read_text()
        Path(folder, "model.pml").write_text(
            "".join(f"#define {each.replace('=', ' ')}\n" for each in definitions) + source
        )
        _run(folder, "spin", "-a", "model.pml")
        # A mistake is found among few states, before an optimised program and a large table repay what they cost.
        optimised, slots = ("-O1", "-w20") if definitions in model.mutants else ("-O2", "-w24")
        _run(folder, "gcc", "-w", optimised, "-DSAFETY", "-DVECTORSZ=1024", "-DMEMLIM=2048", "-o", "pan", "pan.c")
        said = _run(folder, "./pan", "-m2000000", slots)
    found = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    violated = re.search(r"pan:1: (.*) \(at depth", said)
    if found is None or states is None or (found[1] == "0" and "Search not completed" in said):
        raise RuntimeError(f"the search of {model.name} was not complete:\n{said}")
    return Outcome(violated[1] if violated else "", int(states[1]))


def _run(folder: str, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(names: list[str]) -> int:
    """Print what SPIN finds; return 1 where a model does not hold, or a mistake is not found."""
    missing = [each for each in _TOOLS if shutil.which(each) is None]
    if missing:
        print(f"error: {' and '.join(missing)} not found\nhint: apt-get install spin gcc libc6-dev", file=sys.stderr)
        return 1
    failed = False
    for model in MODELS:
        if names and model.name not in names:
            continue
        for definitions in (*model.holds, *model.mutants):
            outcome = check(model, definitions)
            is_right = bool(outcome.violated) == (definitions in model.mutants)
            failed |= not is_right
            title = " ".join((model.name, *definitions))
            result = f"violates {outcome.violated}" if outcome.violated else "holds"
            print(f"{'ok' if is_right else 'WRONG':5}  {title:42}  {outcome.states:>9,} states  {result}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
