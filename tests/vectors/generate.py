"""Write the committed vectors anew: `python -m tests.vectors.generate`. Always the same bytes.

A difference after a change of the code is a change of the protocol. Wycheproof's, SenML's and TweetNaCl's vectors come
from elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tests.vectors import HERE
from tests.vectors.makers import (
    boards,
    cbor,
    ceremonies,
    checkpoints,
    content,
    envelopes,
    erasures,
    group_bodies,
    groups,
    growth,
    heads,
    history,
    history_files,
    invites,
    key_files,
    link_envelopes,
    mailbox,
    messages,
    orders,
    personal,
    presences,
    receipts,
    sessions,
    summaries,
    telemetry,
    vault,
)

_EXACT = 2**53
"""Beyond it, not every whole number is one of a JavaScript program."""

FILES: dict[str, Callable[[], dict[str, Any]]] = {
    "cbor": cbor.make,
    "envelopes": envelopes.make,
    "link_envelopes": link_envelopes.make,
    "messages": messages.make,
    "presences": presences.make,
    "group_manifests": groups.make,
    "group_messages": group_bodies.make,
    "history": history.make,
    "history_files": history_files.make,
    "orders": orders.make,
    "checkpoints": checkpoints.make,
    "content": content.make,
    "mailbox": mailbox.make,
    "boards": boards.make,
    "personal": personal.make,
    "heads": heads.make,
    "key_files": key_files.make,
    "invites": invites.make,
    "ceremonies": ceremonies.make,
    "summaries": summaries.make,
    "telemetry": telemetry.make,
    "receipts": receipts.make,
    "vault": vault.make,
    "erasures": erasures.make,
    "growth": growth.make,
    "sessions": sessions.make,
}


def file_content(name: str) -> dict[str, Any]:
    """Return what a file holds: what it is about, then its parts. Numbers that JSON's readers may round are spelled."""
    made = FILES[name]()
    summary = (sys.modules[FILES[name].__module__].__doc__ or "").partition("\n")[0].partition(": ")[2]
    spelled: dict[str, Any] = _spelled({"about": made.pop("about", summary[:1].upper() + summary[1:]), **made})
    return spelled


def _spelled(value: Any) -> Any:
    """Spell whole numbers beyond 2^53, which a reader of JSON may round: `{"int": decimal}`."""
    if isinstance(value, dict):
        return {key: _spelled(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return {"int": str(value)}
    return value


def text(name: str) -> str:
    """Return a file as it should stand."""
    return json.dumps(file_content(name), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for file in FILES:
        (HERE / f"{file}.json").write_text(text(file), encoding="utf-8")
