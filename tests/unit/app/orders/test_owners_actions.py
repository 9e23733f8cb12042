"""`covey.app.orders.owners_actions`: definitions count only where nobody but their owner can write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.orders.owners_actions import read_action_file
from covey.errors import ConfigurationError
from covey.limits.actions import MAXIMUM_DEFINITION_BYTES

_BEEP = 'summary = "beep"\nargv = ["/usr/bin/beep"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one definition."""
    folder = tmp_path / "operations.d"
    folder.mkdir(mode=0o755)
    _write(folder, "beep")
    return folder


def _write(folder: Path, name: str, text: str = _BEEP) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_a_definition_is_read_by_its_name(folder: Path) -> None:
    found = read_action_file(folder, "beep")
    assert found is not None
    assert (found.name, found.argv) == ("beep", ("/usr/bin/beep",))


def test_a_malformed_definition_does_not_affect_others(folder: Path) -> None:
    _write(folder, "broken", "argv =")
    assert read_action_file(folder, "beep")
    with pytest.raises(ConfigurationError, match=r"broken\.toml"):
        read_action_file(folder, "broken")


def test_no_folder_is_no_action(tmp_path: Path) -> None:
    assert read_action_file(tmp_path / "operations.d", "beep") is None


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    (folder / "beep.toml").chmod(mode)
    with pytest.raises(ConfigurationError, match="other users may write") as caught:
        read_action_file(folder, "beep")
    assert "chmod go-w" in caught.value.hint


def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    folder.chmod(0o775)
    with pytest.raises(ConfigurationError, match="other users may write"):
        read_action_file(folder, "beep")


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "linked.toml").symlink_to(folder / "beep.toml")
    with pytest.raises(ConfigurationError, match=r"linked\.toml"):
        read_action_file(folder, "linked")
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(ConfigurationError, match="not a link"):
        read_action_file(tmp_path / "link", "beep")


def test_a_definition_that_is_too_long_is_refused(folder: Path) -> None:
    _write(folder, "beep", _BEEP + "#" * MAXIMUM_DEFINITION_BYTES)
    with pytest.raises(ConfigurationError, match="longer than"):
        read_action_file(folder, "beep")
