"""The files of a device's configuration: what commands write, what root says of the machine, and what operators set.

`config/file.py` parses and merges the files. This module finds them and checks that nobody else can write to them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.configuration_copy import keep_configuration, restore_configuration
from covey.adapters.keys.key_file import read_secret, write_secret
from covey.adapters.state_path import check_holds_device
from covey.config.file import (
    Configuration,
    changed_text,
    config_text,
    door_tables,
    read_configuration,
    read_text,
    sensor_tables,
)
from covey.config.schema import Config, Value
from covey.errors import ConfigurationError
from covey.limits.settings import MAXIMUM_ORDERED_BYTES

if TYPE_CHECKING:
    from covey.config.doors import DoorEntry
    from covey.config.sensors import SensorEntry


@dataclass(frozen=True, slots=True)
class ConfigurationFiles:
    """Where they lie. Nothing is cached."""

    path: Path
    """What commands write."""
    ordered_path: Path
    """The layer of what operators have set."""
    machine: Path | None = None
    """The folder of what root says of the machine's own agent."""

    def create(self, values: Mapping[str, Value]) -> None:
        """Write the file that commands write, where there is none.

        Raises:
            StorageError: it cannot be written.
        """
        write_secret(self.path, config_text(values).encode())
        self._keep_copy()

    def restored(self) -> Config:
        """Return the configuration, restored from its copy if a disk has damaged it; the copy then holds it.

        Raises:
            ConfigurationError: see `read_configuration`.
        """
        if self._has_copy:
            restore_configuration(self.path)
        config = self.config()
        self._keep_copy()
        return config

    @property
    def _has_copy(self) -> bool:
        """Whether a copy is kept: not of a file elsewhere, which others look after."""
        return self.path.parent == self.ordered_path.parent

    def _keep_copy(self) -> None:
        if self._has_copy:
            keep_configuration(self.path)

    def config(self) -> Config:
        """Read and check the configuration.

        Raises:
            ConfigurationError: see `read_configuration`.
        """
        return self.read().config

    def read(self) -> Configuration:
        """Read and check the configuration, and where each value comes from.

        Raises:
            ConfigurationError: see `read_configuration`.
        """
        return read_configuration(self.files(), os.environ, self.ordered())

    def sensors(self) -> tuple[SensorEntry, ...]:
        """Read and check the sensors that the configuration names; mostly none, and then nothing more is loaded.

        Raises:
            ConfigurationError: see `read_sensors`; or others may write a file that names a program.
        """
        found = [(path, each) for path in self.files() for each in sensor_tables(read_text(path), str(path))]
        if not found:
            return ()
        from covey.adapters.owned_files import check_owned_file, check_owned_folder
        from covey.config.sensors import read_sensors

        for path in {path for path, table in found if table.get("kind") == "exec"}:
            check_owned_folder(path.parent)
            check_owned_file(path)
        return read_sensors((str(path), table) for path, table in found)

    def doors(self) -> tuple[DoorEntry, ...]:
        """Read and check the doors that the configuration names.

        Raises:
            ConfigurationError: see `read_doors`.
        """
        found = [(str(path), each) for path in self.files() for each in door_tables(read_text(path), str(path))]
        if not found:
            return ()
        from covey.config.doors import read_doors

        return read_doors(found)

    def ordered(self) -> str:
        """Return the layer of what operators have set, as it was written; empty where there is none to be read."""
        try:
            return read_secret(self.ordered_path, MAXIMUM_ORDERED_BYTES).decode()
        except (ConfigurationError, UnicodeDecodeError):
            return ""

    def write_ordered(self, text: str) -> None:
        """Replace the layer of what operators have set.

        Raises:
            StorageError: the disk refused.
        """
        write_secret(self.ordered_path, text.encode())

    def files(self) -> list[Path]:
        """Return the configuration's files: what commands write, then the machine's, fragments by name in each.

        Raises:
            ConfigurationError: the state folder holds no device, or belongs to another user.
        """
        state = self.ordered_path.parent
        if self.path.parent == state:
            check_holds_device(state, self.path.name, "identity.key")
        files = [self.path, *sorted((self.path.parent / "conf.d").glob("*.toml"))]
        if self.machine is not None:
            files += [path for path in [self.machine / "config.toml"] if path.exists()]
            files += sorted((self.machine / "conf.d").glob("*.toml"))
        return files

    def change(self, changes: Mapping[str, Value | None]) -> None:
        """Change settings in the configuration file that commands write; None means the default. The rest stays.

        Raises:
            ConfigurationError: see `changed_text`.
            StorageError: it cannot be written.
        """
        text = read_text(self.files()[0])
        for key, value in changes.items():
            text = changed_text(text, key, value)
        write_secret(self.path, text.encode())
        self._keep_copy()
