"""Where the vault lies that the harness lands in, and how that place fails: a folder, or a bucket of a store."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

from covey.adapters.files import locked_folder
from tests.spark.failing_buckets import FailingBuckets
from tests.spark.failing_store import Fault
from tests.spark.strikes import Dice, Strike

_GONE = {"the store is unplugged": "vault.none", "the store is not mounted": "vault.empty"}
"""Where the vault's name leads: nowhere, or to the empty folder that another disk is usually mounted on."""


class VaultPlace(Protocol):
    """A place for a vault; `location` is what commands are told."""

    location: str

    def strikes(self) -> Mapping[str, Strike]:
        """Return how it can fail, by names for people."""
        ...

    def look(self) -> None:
        """Mend what has failed for long enough."""
        ...

    def mend(self) -> None:
        """Mend it now."""
        ...


class VaultFolder:
    """A folder: puts fail as the file `fault` says (`failing_store`), or its name leads elsewhere. One at a time."""

    def __init__(self, folder: Path, fault: Path, dice: Dice) -> None:
        self.location = str(folder / "vault")
        self._folder = folder
        self._fault = fault
        self._dice = dice
        self._whole_at = math.inf
        for name in ("vault.there", "vault.empty"):
            (folder / name).mkdir()
        self.mend()

    def strikes(self) -> Mapping[str, Strike]:
        """Return how it can fail, by names for people."""
        puts: dict[str, Strike] = {fault: partial(self._fail, fault) for fault in Fault}
        return puts | {name: partial(self._lead_to, target) for name, target in _GONE.items()}

    def look(self) -> None:
        """Mend what has failed for long enough."""
        if time.monotonic() > self._whole_at:
            self.mend()

    def mend(self) -> None:
        """Mend it now."""
        self._fault.unlink(missing_ok=True)
        self._point("vault.there")
        self._whole_at = math.inf

    def _fail(self, fault: Fault) -> int:
        """Let puts fail for some seconds, unless something does so already."""
        if self._whole_at != math.inf:
            return 0
        order = self._fault.with_suffix(".new")
        order.write_text(fault)
        order.replace(self._fault)
        return self._fail_for_a_while()

    def _lead_to(self, target: str) -> int:
        if self._whole_at != math.inf:
            return 0
        self._point(target)
        return self._fail_for_a_while()

    def _fail_for_a_while(self) -> int:
        self._whole_at = time.monotonic() + self._dice.outage_seconds()
        return 1

    def _point(self, target: str) -> None:
        """Let the vault's name lead to another place, but not in mid-put: a disk in use is not unmounted."""
        with ExitStack() as puts:
            for folder in sorted(self._folder.glob("vault.*/vaults/*/objects/**/")):
                puts.enter_context(locked_folder(folder))
            (self._folder / "vault.new").symlink_to(target)
            (self._folder / "vault.new").replace(self._folder / "vault")


class VaultInStore:
    """A bucket of its own: requests to it fail."""

    _BUCKET = "vault"
    location = f"s3://{_BUCKET}/fleet"

    def __init__(self, buckets: FailingBuckets) -> None:
        self._buckets = buckets

    def strikes(self) -> Mapping[str, Strike]:
        """Return how it can fail, by names for people."""
        return {
            "the vault's store fails": partial(self._buckets.fail, self._BUCKET),
            "the vault's store lies": partial(self._buckets.lie, self._BUCKET),
        }

    def look(self) -> None:
        """Do nothing: buckets mend themselves."""

    def mend(self) -> None:
        """Mend it now."""
        self._buckets.mend()
