"""Record docs/images/demo.svg: `python -m docs.site.recording`. It runs the demo in a terminal and keeps what it shows.

Pauses are cut to two seconds, and paths begin in this folder; nothing else is changed. The SVG shows one picture after
the other, with CSS alone.
"""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from html import escape
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[2]
_COLUMNS, _LINES = 116, 34
_SHOWN = "./dev demo --light --chaos"
_RUN = [sys.executable, "-m", "demo", "--light", "--chaos"]
_LONGEST_S, _LAST_S, _SHORTEST_S = 2.0, 6.0, 0.25
_CHARACTER, _LINE, _MARGIN = 8, 18, 16
_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_COLOURS = {"default": "#d8e2e0", "red": "#ff8a80", "green": "#a5d6a7", "brown": "#ffe082", "cyan": "#80deea"}


def recorded() -> Iterator[tuple[float, str]]:
    """Run the demo on a terminal of its own, and yield what it prints, with the seconds since the last piece."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(_COLUMNS), "LINES": str(_LINES)}
        os.execv(_RUN[0], _RUN)  # noqa: S606 - the project's own program
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    decoder, before = codecs.getincrementaldecoder("utf-8")("replace"), time.monotonic()
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the demo has ended
            break
        now = time.monotonic()
        yield now - before, decoder.decode(data)
        before = now
    assert os.waitpid(child, 0)[1] == 0, "the demo failed"


def frames() -> list[tuple[float, str]]:
    """Return the pictures of the terminal, each with the seconds for which it is shown."""
    screen = pyte.Screen(_COLUMNS, _LINES)
    stream = pyte.Stream(screen)
    stream.feed(f"$ {_SHOWN}\r\n")
    found, shown = [(1.5, picture(screen))], 0.0
    for pause, text in recorded():
        shown += min(pause, _LONGEST_S)
        if shown >= _SHORTEST_S:
            found.append((shown, picture(screen)))
            shown = 0.0
        stream.feed(text.replace(f"{ROOT}/", ""))
    found.append((_LAST_S, picture(screen)))
    merged = [found[0]]
    for seconds, each in found[1:]:
        if _still(each) == _still(merged[-1][1]):
            merged[-1] = (min(merged[-1][0] + seconds, max(seconds, _LONGEST_S)), each)
        else:
            merged.append((seconds, each))
    return merged


def _still(picture_: str) -> str:
    """Return a picture without the turning wheel of a progress line."""
    return re.sub("[\u2800-\u28ff]", " ", picture_)


def picture(screen: pyte.Screen) -> str:
    """Return the terminal's lines as SVG texts."""
    lines = []
    for number in range(screen.lines):
        row = screen.buffer[number]
        runs: list[tuple[str, str]] = []
        for column in range(screen.columns):
            cell = row[column]
            look = _COLOURS.get(cell.fg, _COLOURS["default"]) + (";font-weight:600" if cell.bold else "")
            if runs and (runs[-1][0] == look or cell.data == " "):
                runs[-1] = (runs[-1][0], runs[-1][1] + cell.data)
            else:
                runs.append((look, cell.data))
        text = "".join(f'<tspan style="fill:{look}">{escape(part)}</tspan>' for look, part in runs).rstrip()
        if "".join(part for _, part in runs).strip():
            lines.append(f'<text x="{_MARGIN}" y="{_MARGIN + 14 + _LINE * number}">{text}</text>')
    return "".join(lines).replace(f'<tspan style="fill:{_COLOURS["default"]}">', "<tspan>")


def svg(pictures: list[tuple[float, str]]) -> str:
    """Return the film: each picture is visible for its part of the whole time, over and over."""
    whole = sum(seconds for seconds, _ in pictures)
    width, height = _COLUMNS * _CHARACTER + 2 * _MARGIN, _LINES * _LINE + 2 * _MARGIN
    styles, groups, begin = [], [], 0.0
    for number, (seconds, picture_) in enumerate(pictures):
        first, last = 100 * begin / whole, 100 * (begin + seconds) / whole
        begin += seconds
        hidden = f"0%{{opacity:0}}{first:.3f}%{{opacity:1}}" if number else "0%{opacity:1}"
        end = f"{last:.3f}%,100%{{opacity:{0 if number < len(pictures) - 1 else 1}}}"
        styles.append(
            f"@keyframes f{number}{{{hidden}{end}}}#f{number}{{animation:f{number} {whole:.1f}s step-end infinite}}"
        )
        groups.append(f'<g id="f{number}" opacity="{int(number == len(pictures) - 1)}">{picture_}</g>')
    style = f"text{{font:13.2px {_FONT};white-space:pre;fill:{_COLOURS['default']}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{_SHOWN}: agents, broker and collector are killed, and each reading is in the table once</title>"
        f'<style>{style}{"".join(styles)}</style><rect width="{width}" height="{height}" rx="8" fill="#14211f"/>'
        f"{''.join(groups)}</svg>\n"
    )


if __name__ == "__main__":
    (ROOT / "docs/images/demo.svg").write_text(svg(frames()), encoding="utf-8")
