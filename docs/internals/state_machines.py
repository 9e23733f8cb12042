"""Draw the diagrams of state-machines.md from the transition tables: `python -m docs.internals.state_machines`.

Each diagram is between `<!-- drawn from NAME -->` and `<!-- end -->`; the rest of the page is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.mqtt.states import CONNECTION
from covey.core.link.send_window import MESSAGE
from covey.core.mailbox.client import SESSION
from covey.core.pairing import inviter, joiner
from covey.core.transitions import Event, Transitions
from covey_boards.shared import link_machine

PAGE = Path(__file__).parent / "state-machines.md"


@dataclass(frozen=True)
class Machine:
    """A table in words: {state: {event: next state}}, its first row is the start."""

    name: str
    table: Mapping[str, Mapping[str, str]]

    @property
    def start(self) -> str:
        """The first state."""
        return next(iter(self.table))

    @property
    def ends(self) -> list[str]:
        """The final states; a machine that never ends has none."""
        return [state for state, row in self.table.items() if set(row.values()) <= {state}]

    def diagram(self) -> str:
        """Return Mermaid text, one line for each arrow."""
        return "\n".join(["```mermaid", "stateDiagram-v2", *(f"    {line}" for line in self._arrows()), "```", ""])

    def _arrows(self) -> Iterator[str]:
        yield f"[*] --> {self.start}"
        for state, row in self.table.items():
            for following in dict.fromkeys(row.values()):
                events = [event for event, each in row.items() if each == following]
                yield f"{state} --> {following}: {'<br>'.join(events)}"
        yield from (f"{state} --> [*]" for state in self.ends)


def _in_words(name: str, table: Transitions[Event]) -> Machine:
    words = {
        state.__name__: {event.value: following.__name__ for event, following in row.items()}
        for state, row in table.items()
    }
    return Machine(name, words)


def _of_the_board() -> Machine:
    """Return the serial link's table, which is bytes: a row for each state, a column for each event."""
    states = ("SEARCHING", "GREETING", "UP", "INCOMPATIBLE")
    events = {
        "_MET": "HELLO of a new or restarted peer",
        "_NAMED": "HELLO with our boot id",
        "_TAGGED": "frame with the session's tag",
        "_SILENCE": "eight repetitions without an answer",
        "_FOREIGN": "HELLO without a common version",
    }
    names = {getattr(link_machine, name): name.capitalize() for name in states}
    columns = {getattr(link_machine, name): words for name, words in events.items()}
    width, table = len(columns), link_machine.TRANSITIONS
    rows = {
        names[state]: {
            columns[event]: names[following]
            for event, following in enumerate(table[state * width : (state + 1) * width])
            if following in names
        }
        for state in sorted(names)
    }
    return Machine("LINK", rows)


MACHINES = {
    machine.name: machine
    for machine in (
        _in_words("INVITER", inviter.INVITER),
        _in_words("JOINER", joiner.JOINER),
        _in_words("MESSAGE", MESSAGE),
        _in_words("CONNECTION", CONNECTION),
        _in_words("SESSION", SESSION),
        _of_the_board(),
    )
}


def drawn(page: str) -> str:
    """Return the page with each diagram redrawn from its table."""
    for name, machine in MACHINES.items():
        begin, end = f"<!-- drawn from {name} -->\n", "<!-- end -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}{machine.diagram()}{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
