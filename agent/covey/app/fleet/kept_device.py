"""A device that is opened once and queried by several threads, in its own thread: opening a large one takes seconds.

1. Before each query it reads what other processes have written since.
2. It is opened again after a failed query; and every `_LOOKED_S` it checks whether its settings changed or its state
   was replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeVar

from covey.errors import CoveyError, LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device

_LOOKED_S = 5.0
_Result = TypeVar("_Result")


class KeptDevice:
    """Safe to be called from several threads, which wait for one another."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Device]]) -> None:
        """Open nothing yet."""
        self._opened = opened
        self._asked: Queue[tuple[Callable[[Device], Any], Future[Any]]] = Queue()
        self._held = ExitStack()
        self._device: Device | None = None
        self._state_file: tuple[int, int] | None = None
        self._looked_at = 0.0
        threading.Thread(target=self._answer, name="device", daemon=True).start()

    def run(self, work: Callable[[Device], _Result]) -> _Result:
        """Return what the work returns for the device.

        Raises:
            CoveyError: what the work raises, or the device cannot be opened.
        """
        future: Future[_Result] = Future()
        self._asked.put((work, future))
        return future.result()

    def _answer(self) -> None:
        while True:
            work, future = self._asked.get()
            try:
                future.set_result(self._run(work))
            except BaseException as error:  # noqa: BLE001 - it is raised where the question was asked
                future.set_exception(error)
            del work, future  # what was returned is not held until the next question

    def _run(self, work: Callable[[Device], _Result]) -> _Result:
        device = self._current()
        try:
            return work(device)
        except LocalError:
            raise
        except BaseException:
            self._let_go()
            raise

    def _current(self) -> Device:
        if self._device is not None and time.monotonic() - self._looked_at >= _LOOKED_S:
            self._looked_at = time.monotonic()
            if not self._is_as_opened(self._device):
                self._let_go()
        if self._device is None:
            self._device = self._held.enter_context(self._opened())
            self._looked_at, self._state_file = time.monotonic(), _identity_of(self._device)
        elif self._device.store.changed_elsewhere():
            self._device.node.refresh()
        return self._device

    def _is_as_opened(self, device: Device) -> bool:
        try:
            return device.folder.configuration.config() == device.config and _identity_of(device) == self._state_file
        except CoveyError:  # which opening it tells
            return False

    def _let_go(self) -> None:
        self._device = None
        self._held.close()


def _identity_of(device: Device) -> tuple[int, int] | None:
    """Return what distinguishes a state's file from another of the same name; None without one."""
    try:
        found = device.folder.state_file.path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
