"""What MkDocs is given beside the pages in docs/: generated pages, and the files of the tree that pages link to.

1. A link that leaves docs/ leads to a copy in the site, below `tree/`; a Markdown file there is a page.
2. Decisions and the parts of the protocol are listed from their folders, in the order of their names.
3. Search works from a folder, too: the program for that is here, where MkDocs Material would load it from the network.
4. Diagrams of state machines become tables: drawing them in a browser would take a program of 3 MB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.site.pages import PAGES

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_DOCS = ROOT / "docs"
_TREE = "tree"
_SHIM = ("https://unpkg.com/iframe-worker/shim", "iframe_worker.js")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
_DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n(.*?)```\n", re.DOTALL)
_ARROW = re.compile(r"\s*(\S+) --> ([^:\n]+)(?:: (.*))?")


def on_config(config: MkDocsConfig) -> None:
    """Fill the navigation with decisions and with the parts of the protocol."""
    internals: list[Any] = next(each for each in config.nav or [] if "Internals" in each)["Internals"]
    parts = sorted(
        (_DOCS / "protocol").glob("*.md"), key=lambda path: (path.stem not in {"README", "index"}, path.name)
    )
    internals.append({"Protocol": [_in_docs(each) for each in parts]})
    decisions = sorted((_DOCS / "adr").glob("0*.md"))
    internals.append({"Decisions": ["adr/README.md", *(_in_docs(each) for each in decisions)]})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is generated, and what is linked to outside docs/."""
    from mkdocs.structure.files import File

    for name, write in PAGES.items():
        files.append(File.generated(config, name, content=write()))
    for path in sorted(_outside()):
        files.append(File.generated(config, f"{_TREE}/{path.relative_to(ROOT)}", abs_src_path=str(path)))
    files.append(File.generated(config, _SHIM[1], abs_src_path=str(Path(__file__).with_name(_SHIM[1]))))
    return files


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Return a page that loads nothing from the network."""
    return output.replace(_SHIM[0], os.path.relpath(_SHIM[1], Path(page.url).parent))


def on_post_template(output_content: str, **_: object) -> str:
    """Do the same for a page of the theme, such as 404.html, which lies at the top."""
    return output_content.replace(_SHIM[0], _SHIM[1])


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return a page's text with links that lead into the site, and tables in the place of diagrams."""
    place = page.file.src_uri
    source = ROOT / place.removeprefix(f"{_TREE}/") if place.startswith(f"{_TREE}/") else _DOCS / place

    def in_the_site(found: re.Match[str]) -> str:
        text, link, anchor = found.groups(default="")
        target = _target(source, link)
        if target is None:  # a folder without a page about it, or a generated page
            return text if Path(source.parent / link).is_dir() else found[0]
        inside = target.relative_to(_DOCS) if _is_page(target) else _TREE / target.relative_to(ROOT)
        return f"[{text}]({os.path.relpath(inside, Path(place).parent)}{anchor})"

    return _DIAGRAM.sub(_as_table, _LINK.sub(in_the_site, markdown))


def _in_docs(path: Path) -> str:
    return str(path.relative_to(_DOCS))


def _target(source: Path, link: str) -> Path | None:
    """Return the file of the tree that a link of a page leads to; for a folder, the page about it."""
    target = Path(os.path.normpath(source.parent / link))
    if target.is_dir():
        about = [target / name for name in ("README.md", "index.md", "__init__.py") if (target / name).exists()]
        target = about[0] if about else target
    return target if target.is_file() and target.is_relative_to(ROOT) else None


def _outside() -> set[Path]:
    """Return the files outside docs/ that pages link to, and those that these link to."""
    found: set[Path] = set()
    waiting = [path for path in _DOCS.rglob("*.md") if path.is_file()]
    while waiting:
        page = waiting.pop()
        for _, link, _ in _LINK.findall(page.read_text(encoding="utf-8")):
            target = _target(page, link)
            if target is None or target in found or _is_page(target):
                continue
            found.add(target)
            if target.suffix == ".md":
                waiting.append(target)
    return found


def _is_page(path: Path) -> bool:
    """Return whether MkDocs takes a file by itself (see `exclude_docs` in mkdocs.yml)."""
    return path.is_relative_to(_DOCS) and path.suffix in {".md", ".png", ".svg", ".json"}


def _as_table(found: re.Match[str]) -> str:
    return "\n".join(["| state | event | next state |", "|---|---|---|", *_rows(found[1]), ""])


def _rows(diagram: str) -> Iterator[str]:
    for line in diagram.splitlines():
        if arrow := _ARROW.fullmatch(line):
            state, following, events = arrow.groups(default="")
            if "[*]" not in {state, following}:
                yield from (f"| {state} | {event} | {following} |" for event in events.split("<br>"))
