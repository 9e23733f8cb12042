"""A vault directory on a real file system, with a real full disk and a real kill."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.errors import LimitError, MalformedError, StorageError
from tests.waiting import GUARD_S

ROOT = Path(__file__).parents[4]


def test_an_object_comes_back(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "vault")
    store.put("nodes/ab12/segments/000001.seg", b"sealed")
    assert store.get("nodes/ab12/segments/000001.seg", 6) == b"sealed"
    store.put("nodes/ab12/segments/000001.seg", b"")
    assert store.get("nodes/ab12/segments/000001.seg", 6) == b""


def test_a_missing_object_is_none(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "vault")
    assert store.get("nodes/ab12/manifest", 10) is None
    assert list(store.keys("")) == []
    store.put("a", b"1")
    assert store.get("a/b", 10) is None


def test_an_object_longer_than_expected_is_refused(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("a", b"123456789")
    assert store.get("a", 9) == b"123456789"
    with pytest.raises(LimitError, match="longer than 8 bytes"):
        store.get("a", 8)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/etc/passwd",
        "a//b",
        "a/",
        "../a",
        "a/../b",
        "a/..",
        ".",
        ".hidden",
        "a/.b",
        "a b",
        "a\n",
        "ä",
        "a\0b",
        "a" * 256,
    ],
)
def test_an_invalid_key_touches_no_file(tmp_path: Path, key: str) -> None:
    store = DirectoryStore(tmp_path / "vault")
    with pytest.raises(MalformedError):
        store.put(key, b"x")
    with pytest.raises(MalformedError):
        store.get(key, 10)
    assert list(tmp_path.iterdir()) == []


def test_keys_are_sorted_as_text_and_filtered_by_prefix(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    stored = ["b", "a/c", "a-b", "a0", "a/b/z", "a/b-1", "aa/x", "a.b", "a/b0", "A", "_", "0/1/2/3"]
    for key in stored:
        store.put(key, b"")
    for prefix in ("", "a", "a/", "a/b", "a/b/", "aa", "0/1/", "0/1/2/3", "none", "../", "/"):
        assert list(store.keys(prefix)) == sorted(key for key in stored if key.startswith(prefix))


def test_keys_pass_over_what_is_no_object(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "vault")
    store.put("a/1", b"")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"")
    (tmp_path / "vault" / "a" / ".00ff.tmp").write_bytes(b"half")
    (tmp_path / "vault" / "a" / "not a key").write_bytes(b"")
    (tmp_path / "vault" / "link").symlink_to(tmp_path / "outside")
    assert list(store.keys("")) == ["a/1"]
    for prefix in ("link/", "link/secret", "../outside/", "a/../", "a/1/", "not a key/", "//"):
        assert list(store.keys(prefix)) == []


def test_the_store_reads_regular_files_only(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    for key in ("folder", "link", "pipe"):
        with pytest.raises(StorageError, match="cannot read"):
            store.get(key, 100)


def test_a_put_that_the_disk_refuses_changes_nothing(tmp_path: Path) -> None:
    """A file size limit makes the write fail halfway, as a bad disk would."""
    store = DirectoryStore(tmp_path)
    store.put("a", b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(StorageError, match="cannot write"):
            store.put("a", bytes(8192))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert store.get("a", 10) == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_where_a_folder_should_be_is_a_storage_error(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("a", b"")
    with pytest.raises(StorageError):
        store.put("a/b", b"")


def test_a_disk_that_fails_below_a_prefix_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(Path, "is_symlink", fail)
    with pytest.raises(StorageError):
        list(DirectoryStore(tmp_path).keys("a/b"))


FULL_DISK = """
import sys; from pathlib import Path
from covey.adapters.objects.folder import DirectoryStore
from covey.errors import DiskFullError
store = DirectoryStore(Path(sys.argv[1]))
store.put("kept", b"old")
try:
    store.put("kept", bytes(1 << 20))
except DiskFullError as error:
    assert "no room left" in str(error) and error.hint, error
    assert store.get("kept", 10) == b"old"
    assert list(Path(sys.argv[1]).iterdir()) == [Path(sys.argv[1], "kept")]
    print("refused well")
"""


@pytest.mark.processes
def test_a_full_disk_is_named_and_keeps_what_was_there(tmp_path: Path) -> None:
    """On a file system of 64 KiB, in a namespace of its own."""
    inside = 'mount -t tmpfs -o size=64k none "$1" || exit 77; exec "$2" -c "$3" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh"]
    try:
        arguments = [*command, str(tmp_path), sys.executable, FULL_DISK]
        ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=GUARD_S, cwd=ROOT)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip("no namespaces of one's own here")
    assert ran.stdout == "refused well\n", ran.stderr


ALTERNATE = """
import sys; from pathlib import Path
from covey.adapters.objects.folder import DirectoryStore
store = DirectoryStore(Path(sys.argv[1]))
store.put("a/b", b"0" * 1_000_000)
print("ready", flush=True)
while True:
    for digit in (b"1", b"0"):
        store.put("a/b", digit * 1_000_000)
"""


@pytest.mark.processes
def test_a_killed_writer_leaves_the_old_object_or_the_new(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALTERNATE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        store = DirectoryStore(tmp_path)
        for _ in range(50):  # readers beside the writer never see half an object either
            content = store.get("a/b", 1_000_000)
            assert content is not None
            assert set(content) in ({ord("0")}, {ord("1")})
            assert len(content) == 1_000_000
        writer.kill()
    content = store.get("a/b", 1_000_000)
    assert content is not None
    assert len(content) == 1_000_000
    assert len(set(content)) == 1
    assert list(store.keys("")) == ["a/b"]


def test_an_object_is_not_put_beside_another_disk_than_the_one_before(tmp_path: Path) -> None:
    """A disk is mounted over the folder after an object was put: what follows it would name what nobody sees."""
    disk, below, root = (tmp_path / name for name in ("disk", "below", "root"))
    disk.mkdir()
    below.mkdir()
    root.symlink_to(below)
    store = DirectoryStore(root)
    store.replace("segments/one", b"one", None)
    root.unlink()
    root.symlink_to(disk)
    with pytest.raises(StorageError, match="is another folder than before"):
        store.replace("manifests/one", b"names one", None)
    assert store.get("manifests/one", 100) is None
    store.replace("segments/one", b"one", None)
    store.replace("manifests/one", b"names one", None)
    assert [*store.keys("")] == ["manifests/one", "segments/one"]
