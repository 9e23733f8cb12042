"""A patch that takes its time: who waits hears of it, and can leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from covey.adapters.patches import apply_patch, make_patch

_BASE, _NEW = b"one" * 5_000, b"one" * 4_000 + b"two" * 9


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing is compressed before this is set."""
    goes = threading.Event()
    made = pytest.importorskip("zstandard").ZstdCompressor

    class Held:
        def __init__(self, **options: object) -> None:
            self._compressor = made(**options)

        def compress(self, content: bytes) -> bytes:
            goes.wait()
            compressed = self._compressor.compress(content)
            assert isinstance(compressed, bytes)
            return compressed

    monkeypatch.setattr("zstandard.ZstdCompressor", Held)
    monkeypatch.setattr("covey.adapters.patches._LOOK_S", 0.001)
    yield goes
    goes.set()


def test_making_a_patch_reports_progress(held: threading.Event) -> None:
    waited = list[float]()

    def note(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            held.set()

    patch = make_patch(_BASE, _NEW, note)
    assert apply_patch(_BASE, patch, len(_NEW)) == _NEW
    assert len(waited) >= 3
    assert waited == sorted(waited)


def test_making_a_patch_can_be_interrupted(held: threading.Event) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_patch(_BASE, _NEW, interrupt)
    assert not held.is_set(), "it was left at its work"
