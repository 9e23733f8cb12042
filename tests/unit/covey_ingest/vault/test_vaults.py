"""Several vaults as one source: names of nodes, positions of each, and what one of them can do to the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.core.vault.reading import VaultReader
from covey.errors import ConfigurationError, StorageError
from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import VaultStreamReader
from covey_ingest.vault.key_file import read_key_file
from covey_ingest.vault.offsets import latest_offset, ranges
from covey_ingest.vault.vaults import VaultPlace, Vaults
from tests.spark.fleet import Author, Collector


class Scene:
    """A vault of one collector, and another one in which the same collector lands, too."""

    def __init__(self, folder: Path) -> None:
        self.north = Collector(folder / "north", 1)
        self.south = Collector(folder / "south", 2, identity=self.north.identity)
        self.device = Author(self.north, 3)
        for collector in (self.north, self.south):
            collector.land(self.device.measure(1))
        self.home = self.north.key.vault_id.hex()

    def stream(self, *collectors: Collector) -> VaultStreamReader:
        """Follow the vaults of some collectors, as tables that began with the north one do."""
        (first, *rest) = (VaultPlace(str(each.vault), each.key_file) for each in collectors)
        options = SourceOptions(first.vault, first.key_file, others=tuple(rest), home=self.home)
        assert SourceOptions.parse(options.to_options()) == options
        return VaultStreamReader(options)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def _latest(stream: VaultStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def _rows(stream: VaultStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return [(row["vault"], row["segment"]) for batch in batches for row in batch.to_pylist()]


def test_a_node_of_two_vaults_has_a_position_in_each(scene: Scene) -> None:
    stream, node = scene.stream(scene.north, scene.south), scene.north.node.hex()
    south = scene.south.key.vault_id.hex()
    end = _latest(stream, {})
    assert {name: at[1] for name, at in end.items()} == {node: 1, f"{south}/{node}": 1}
    assert _rows(stream, {}, end) == [(scene.home, 1), (south, 1)]
    assert stream.reportLatestOffset().keys() == end.keys()

    scene.south.land(scene.device.measure(2))
    after = _latest(stream, end)
    assert _rows(stream, end, after) == [(south, 2)]
    assert _latest(scene.stream(scene.south, scene.north), after) == after, "in whatever order they are named"


def test_a_stream_of_one_vault_can_follow_another(scene: Scene) -> None:
    single = VaultStreamReader(SourceOptions(str(scene.north.vault), scene.north.key_file))
    before = _latest(single, {})
    assert before.keys() == {scene.north.node.hex()}
    both = scene.stream(scene.south, scene.north)
    assert _rows(both, before, _latest(both, before)) == [(scene.south.key.vault_id.hex(), 1)]


def test_a_vault_that_is_no_longer_named_keeps_its_position(scene: Scene) -> None:
    both, north, south = (scene.stream(*each) for each in ((scene.north, scene.south), (scene.north,), (scene.south,)))
    start = _latest(both, {})
    for collector in (scene.north, scene.south):
        collector.land(scene.device.measure(1))
    assert _latest(north, {}).keys() == {scene.north.node.hex()}
    planned = _latest(both, start)
    with pytest.raises(StorageError, match="a planned micro-batch reads the vault"):
        north.partitions(start, planned)
    with pytest.raises(StorageError, match="that these tables began with"):
        south.partitions(start, planned)

    without = _latest(south, start)
    assert _rows(south, start, without) == [(scene.south.key.vault_id.hex(), 2)]
    assert _latest(south, without) == without, "an idle vault does not move"
    assert _latest(both, without) == planned
    assert _rows(both, without, planned) == [(scene.home, 2)]


def test_two_places_of_one_vault_are_refused(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "south").rename(tmp_path / "mirror")
    mirror = Collector(tmp_path / "south", 4, key=scene.north.key)
    with pytest.raises(ConfigurationError, match="are the same vault"):
        _latest(scene.stream(scene.north, mirror), {})


class _Store(DirectoryStore):
    """A vault's folder, on a line that can be cut."""

    cut = False

    def get(self, key: str, maximum: int) -> bytes | None:
        self._answer()
        return super().get(key, maximum)

    def keys(self, prefix: str) -> Iterator[str]:
        self._answer()
        return super().keys(prefix)

    def _answer(self) -> None:
        if self.cut:
            raise StorageError("the line is cut")


def test_a_vault_that_does_not_answer_holds_up_nobody_else(scene: Scene) -> None:
    collectors, node = (scene.north, scene.south), scene.north.node.hex()
    stores = [_Store(each.vault) for each in collectors]
    vaults = Vaults(
        [
            (VaultPlace(str(each.vault), each.key_file), VaultReader(store, read_key_file(each.key_file)))
            for each, store in zip(collectors, stores, strict=True)
        ]
    )
    far = f"{scene.south.key.vault_id.hex()}/{node}"
    start = latest_offset(vaults, {}, None)
    for each in collectors:
        each.land(scene.device.measure(1))
    stores[1].cut = True
    troubled = latest_offset(vaults, start, None)
    assert [(troubled[name][1], troubled[name][3].split(" ")[0]) for name in (node, far)] == [(2, ""), (1, "storage")]
    assert [(work.node, work.trouble[:7]) for work in ranges(vaults, start, troubled)] == [(node, ""), (far, "storage")]
    assert latest_offset(vaults, troubled, None) == troubled, "told once"
    stores[0].cut = True
    with pytest.raises(StorageError, match="cut"):
        latest_offset(vaults, troubled, None)
    stores[0].cut = stores[1].cut = False
    assert [work.node for work in ranges(vaults, troubled, latest_offset(vaults, troubled, None))] == [far]
