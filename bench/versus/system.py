"""What the rig needs of a system: an edge that acknowledges messages, a hub that hands them out, and their programs.

A system has a folder on the edge's disk and one on the hub's; what it keeps is there, its configuration may be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench.versus.link import Link
from bench.versus.program import Program

CONFIGURATIONS = Path(__file__).parent / "configurations"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a system lives: folders on two disks, and one for its logs and what the rig itself needs."""

    edge: Path
    hub: Path
    rig: Path


class NotAcknowledgedError(Exception):
    """The edge did not acknowledge a message; the producer tries again with the same number."""


class System(ABC):
    """One system, set up once for each fault."""

    name: ClassVar[str]
    promise: ClassVar[str]
    """How it is configured, in a few words."""
    reads_c_clock: ClassVar[bool] = True
    """Whether its programs ask the C library for the time, so that `bench.clock` can set their clocks."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.programs: dict[str, Program] = {}
        """`edge`, `hub`, and `relay` if something else is between them, on the hub's disk."""
        self.edge_environment: dict[str, str] = {}
        """What the edge's program must have in its environment."""
        self.link: Link

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Return the program and its version; raises `LackingError` where it is not installed."""

    @abstractmethod
    def set_up(self) -> None:
        """Start everything, and return when a message can pass."""

    @abstractmethod
    def publish(self, number: int, payload: bytes) -> None:
        """Hand a message to the edge, and return when it is acknowledged.

        Raises:
            NotAcknowledgedError: it was not; the message may be stored or not.
        """

    @abstractmethod
    def receive(self, arrive: Callable[[object, bytes], None], stopped: Callable[[], bool]) -> None:
        """Take messages at the hub until `stopped`, each noted by `arrive` before the hub may forget it.

        Raises:
            OSError: the hub is gone; the consumer comes again.
        """

    @abstractmethod
    def data_files(self, side: str) -> list[Path]:
        """Return the files in which the edge, or the hub, keeps messages and its own state."""

    def parts_on(self, side: str) -> list[Program]:
        """Return the programs whose disk is the edge's, or the hub's."""
        return [program for part, program in self.programs.items() if (part == "edge") == (side == "edge")]

    def close(self) -> None:
        """End everything."""
        for program in self.programs.values():
            program.kill()
        if hasattr(self, "link"):
            self.link.close()


class LackingError(Exception):
    """A system is not installed here; the second argument says how to install it."""
