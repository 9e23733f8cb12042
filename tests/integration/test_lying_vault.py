"""A collector over an object store that lies, at whichever request of a landing: nothing is lost, nothing is doubled.

The store says that it has written and has not, keeps or returns half of an object, reports an error for what it did,
does things twice, or returns what was there before. A sender is acknowledged only for what the vault has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="the cloud extra is not installed")

from covey.adapters.objects import cloud
from covey.adapters.objects.location import open_vault_store
from covey.errors import StorageError
from tests.failing_s3 import LIES, FailingS3, Order
from tests.fleet import carry
from tests.vault_site import Objects, Site

_PREFIX = "bucket/vault/"
_RETRY_S = 10


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which is asked once for each thing."""
    monkeypatch.setattr(cloud, "_RETRIES_MAX", 0)
    with FailingS3().running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


class Bucket(Objects):
    """A vault in the store, as a collector opens it."""

    def __init__(self, store: FailingS3) -> None:
        super().__init__()
        self._store = store
        self._there = open_vault_store(f"s3://{_PREFIX[:-1]}", Path())
        self.replace, self.get = self._there.replace, self._there.get  # type: ignore[method-assign]
        self.put, self.delete = self._there.put, self._there.delete  # type: ignore[method-assign]

    def look(self) -> None:
        """Take what is there for the content, whatever the store would say."""
        self.content = {key.removeprefix(_PREFIX): content for key, (content, _) in self._store.objects.items()}

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys."""
        return self._there.keys(prefix)


class Liar:
    """Tells lies at some requests, counted from now."""

    def __init__(self, store: FailingS3, lie: Order, at: range) -> None:
        self._lie = lie
        self._at = at
        self.requests = 0
        store.orders = self

    def __call__(self, _method: str, _key: str) -> Order:
        self.requests += 1
        return self._lie if self.requests - 1 in self._at else Order.OBEY


def _landed(site: Site, objects: Bucket) -> list[bytes]:
    objects.look()
    return site.landed_telemetry()


def _is_acknowledged(site: Site) -> bool:
    carry(site.ann, site.gate)
    return site.ann.store.outbox.totals()[0] == 0


def _land_to_a_liar(store: FailingS3, folder: Path, lie: Order, at: range, *, restarts: bool) -> int:
    """Land while the store lies, and then until all is landed; return how many requests the first landing made."""
    store.objects.clear()
    store.older.clear()
    store.orders = lambda _method, _key: Order.OBEY
    objects = Bucket(store)
    site = Site(folder, objects)
    site.send(b"one")
    site.land()
    site.send(b"two")
    why, liar = (lie, at, restarts), Liar(store, lie, at)
    site.land()
    requests, store.orders = liar.requests, lambda _method, _key: Order.OBEY
    if _is_acknowledged(site):
        assert _landed(site, objects) == [b"one", b"two"], why
    if restarts:
        site.start()
    site.send(b"three")
    for _ in range(4):
        site.turn(_RETRY_S)
    assert _landed(site, objects) == [b"one", b"two", b"three"], why
    site.ann.wait(400)
    assert _is_acknowledged(site), why
    return requests


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "starts again"])
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name.lower())
def test_each_message_is_landed_once_whatever_a_store_lies_about(
    store: FailingS3, tmp_path: Path, lie: Order, restarts: bool
) -> None:
    requests = _land_to_a_liar(store, _folder(tmp_path, "honest"), lie, range(0), restarts=restarts)
    assert requests > 4, "a segment and a manifest are put, and read back"
    for at in range(requests):
        _land_to_a_liar(store, _folder(tmp_path, str(at)), lie, range(at, at + 1), restarts=restarts)


def _folder(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name.lower())
def test_a_collector_recovers_from_a_store_that_lies_for_long(store: FailingS3, tmp_path: Path, lie: Order) -> None:
    _land_to_a_liar(store, tmp_path, lie, range(1_000), restarts=False)


def test_an_object_that_was_not_removed_is_noticed(store: FailingS3) -> None:
    objects = open_vault_store(f"s3://{_PREFIX[:-1]}", Path())
    objects.put("one", b"content")
    store.orders = lambda method, _key: Order.FORGET if method in ("DELETE", "POST") else Order.OBEY
    with pytest.raises(StorageError, match="still has it"):
        objects.delete("one")
    store.orders = lambda _method, _key: Order.OBEY
    objects.delete("one")
    assert objects.get("one", 7) is None
