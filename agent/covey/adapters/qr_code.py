"""A QR code for a terminal, two modules to a character."""

from __future__ import annotations

import io


def terminal_qr(text: str) -> str:
    """Return the lines of a QR code; empty where the package that draws it is not there."""
    try:
        import segno
    except ModuleNotFoundError:
        return ""
    drawn = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(drawn, border=2, compact=True)
    return drawn.getvalue()
