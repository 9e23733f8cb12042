"""The settings of a running process, and the parts that apply a change without a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from covey.config.schema import Config


@dataclass(slots=True)
class LiveSettings:
    """The settings of one opened device; its running parts follow those that they can change in mid-flight."""

    config: Config
    _followers: dict[str, list[Callable[[Config], None]]] = field(default_factory=dict)

    def follow(self, keys: Iterable[str], change: Callable[[Config], None]) -> None:
        """Have a part called whenever one of these settings has changed."""
        for key in keys:
            self._followers.setdefault(key, []).append(change)

    def follows(self, key: str) -> bool:
        """Say whether a change of a setting needs no restart."""
        return key in self._followers

    def change(self, config: Config, keys: Iterable[str]) -> None:
        """Let other settings hold, and tell those who follow what has changed."""
        self.config = config
        followers = [each for key in keys for each in self._followers.get(key, ())]
        for place, each in enumerate(followers):
            if each not in followers[:place]:
                each(config)
