"""Draw docs/images/system.svg and custody.svg: `python -m docs.site.drawings`."""

from __future__ import annotations

from html import escape
from pathlib import Path

_IMAGES = Path(__file__).parents[1] / "images"
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1c2b2a}.s{font-size:12px;fill:#47605d}.b{font-weight:600}"
    ".box{fill:#f4faf9;stroke:#00796b;stroke-width:1.5}.dark{fill:#e6e6e6;stroke:#777}"
    ".line{stroke:#00796b;stroke-width:1.8;fill:none}"
    ".back{stroke:#b26a00;stroke-dasharray:5 4}.held{fill:#80cbc4;stroke:#00796b}"
    ".gone{fill:none;stroke:#aaa;stroke-dasharray:3 3}"
)
_HEAD = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#00796b"/></marker></defs>'
)


class Drawing:
    """An SVG that grows by boxes, arrows and texts."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            _HEAD,
            f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
        ]

    def text(self, x: int, y: int, text: str, kind: str = "", anchor: str = "middle") -> None:
        """Write a line."""
        self._parts.append(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def box(self, x: int, y: int, width: int, height: int, title: str, *lines: str, kind: str = "box") -> None:
        """Draw a box with a title and lines of small text."""
        self._parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}"/>')
        middle = x + width // 2
        if title:
            self.text(middle, y + 22, title, "b")
        for number, line in enumerate(lines):
            self.text(middle, y + 42 + 17 * number, line, "s")

    def arrow(self, *points: tuple[int, int], kind: str = "line") -> None:
        """Draw a line with a head at its end."""
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path d="{path}" class="{kind}" marker-end="url(#a)"/>')

    def write(self, name: str) -> None:
        """Write the file."""
        (_IMAGES / name).write_text("\n".join([*self._parts, "</svg>"]) + "\n", encoding="utf-8")


def system() -> None:
    """The parts, and what passes between them."""
    drawing = Drawing(
        980, 330, "Boards and gateways send sealed messages through a broker to a collector, which fills tables"
    )
    drawing.box(20, 40, 150, 80, "board", "MicroPython", "own keys")
    drawing.box(
        230,
        20,
        190,
        120,
        "gateway: agent",
        "sensors → batch → sign",
        "outbox (SQLite)",
        "seal for the recipient",
        "own keys",
    )
    drawing.box(490, 30, 150, 100, "any MQTT broker", "sees a public key", "and ciphertext", "no keys", kind="dark")
    drawing.box(
        710,
        20,
        250,
        120,
        "hub: collector",
        "open, verify, deduplicate",
        "write a sealed vault segment",
        "then acknowledge",
        "own keys and the vault key",
    )
    drawing.box(710, 220, 250, 90, "tables", "local engine or Spark", "each reading once,", "every gap with its reason")
    drawing.box(230, 220, 190, 90, "operator", "signed settings and orders", "page, command line, API")
    for start, end in ((170, 230), (420, 490), (640, 710)):
        drawing.arrow((start, 70), (end, 70))
    drawing.arrow((835, 140), (835, 220))
    drawing.text(845, 185, "vault: folder or S3", "s", "start")
    drawing.arrow((710, 105), (640, 105), kind="line back")
    drawing.arrow((490, 105), (420, 105), kind="line back")
    drawing.arrow((325, 220), (325, 140))
    drawing.text(315, 185, "by the group's history", "s", "end")
    drawing.text(565, 165, "dashed: the recipient's sealed acknowledgement;", "s")
    drawing.text(565, 182, "only this lets the gateway delete its copy", "s")
    drawing.write("system.svg")


def custody() -> None:
    """Who holds a reading at each moment, and what lets the holder delete it."""
    holders = ("sensor", "gateway's outbox", "broker", "collector's database", "vault", "tables")
    steps = (
        ("measured", (0,), "at most one batch is lost in a power cut"),
        ("committed to the outbox", (1,), "the gateway must keep it"),
        ("published, PUBACK received", (1, 2), "the broker may lose it: nothing changes"),
        ("opened, verified, committed", (1, 2, 3), "not yet acknowledged"),
        ("segment and manifest synchronised", (1, 3, 4), "the collector may delete its copy"),
        ("acknowledgement arrives, sealed", (4,), "only now the gateway deletes it"),
        ("one commit in the log of readings", (4, 5), "the vault keeps it until you delete it"),
    )
    left, top, column, row = 290, 62, 92, 38
    drawing = Drawing(1130, top + row * len(steps) + 20, "Who holds a reading at each step, and who may delete it")
    for number, name in enumerate(holders):
        words = name.split(" ", 1)
        for place, word in enumerate(words):
            drawing.text(
                left + column * number + column // 2, 26 + 17 * place + (8 if len(words) == 1 else 0), word, "b"
            )
    for line, (step, held, remark) in enumerate(steps):
        y = top + row * line
        drawing.text(left - 12, y + 20, step, "", "end")
        for number in range(len(holders)):
            drawing.box(
                left + column * number + 8, y, column - 16, row - 10, "", kind="held" if number in held else "gone"
            )
        drawing.text(left + column * len(holders) + 8, y + 19, remark, "s", "start")
    drawing.write("custody.svg")


if __name__ == "__main__":
    system()
    custody()
