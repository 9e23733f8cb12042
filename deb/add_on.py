"""The Home Assistant add-on of a release: a repository of add-ons with one in it, in a tar file.

The folder `home-assistant` has what a person writes. Added are the version, the documentation (the how-to), the
changelog, and the image's layer of each architecture: so the add-on is the image that the release has, and building it
on the machine downloads nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from deb.__main__ import tree_version
from deb.image import archive_of, packed_layers

_TREE = Path(__file__).parents[1]
_FOLDER = Path(__file__).with_name("home-assistant")
_ARCHITECTURES = {"amd64": "amd64", "arm64": "aarch64"}
"""The Supervisor's names of the image's architectures."""


def build_add_on(output: Path, image: Path) -> Path:
    """Build the add-on from an image into a folder, and return its path."""
    version = tree_version()
    files = {str(path.relative_to(_FOLDER)): path.read_bytes() for path in _FOLDER.rglob("*") if path.is_file()}
    files["covey/config.yaml"] = files["covey/config.yaml"].replace(b"{version}", version.encode())
    files["covey/DOCS.md"] = _without_links((_TREE / "docs/how-to/home-assistant.md").read_text(encoding="utf-8"))
    files["covey/CHANGELOG.md"] = (_TREE / "CHANGELOG.md").read_bytes()
    for architecture, layer in packed_layers(image).items():
        files[f"covey/root-{_ARCHITECTURES[architecture]}.tar.gz"] = layer
    add_on = output / f"covey-{version}-home-assistant.tar"
    add_on.write_bytes(archive_of({f"covey-home-assistant/{name}": content for name, content in files.items()}))
    return add_on


def _without_links(page: str) -> bytes:
    """Return a page whose links to other pages are text alone: Home Assistant shows it without them."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", page).encode()
