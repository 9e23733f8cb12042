"""Whether files can be moved here, have room, come, and are what their authors say."""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, ok, warning
from covey.app.content.status import content_status, store_trouble
from covey.app.wording import count
from covey.core.content.secrets import EpochSecrets
from covey.core.crypto import has_blake3
from covey.errors import StorageError

_NEARLY_FULL = 0.8


def content(device: Examined) -> Iterator[Seen]:
    """What is pinned leaves room, what is asked for can come, and nothing was given otherwise than it was offered."""
    status = content_status(device.opened, running=device.opened.folder.locks.agent_runs())
    if status is None:
        yield Level.SKIPPED, "no files are here, or asked for", ""
        return
    if status.wanted and not has_blake3():
        yield warning(
            f"{count(status.wanted, 'file')} cannot come: blake3 is not installed for this Covey", "pip install blake3"
        )
    files = device.opened.store.content
    missing = sum(each.sealed_size - files.come(each.hash) for each in files.all_wanted())
    try:
        files.files.need_room(missing)
    except StorageError as error:
        yield warning(f"what is asked for has no room: {error}", "covey content drop, or make room on the disk")
    if status.wrong:
        yield warning(
            f"{count(status.wrong, 'file')} came whole and not as offered, and went: 'covey content ls' says which",
            "ask who has put it to put it again, then covey content drop, and covey get",
        )
    if lacking := len({each.epoch_id for each in EpochSecrets(device.opened.store).wanted()}):
        yield warning(
            f"files here were put before this device came; their {count(lacking, 'key')} nobody has given yet",
            "a member that has pinned them gives it: covey content pin there; or have them put again",
        )
    if trouble := store_trouble(device.opened):
        yield warning(
            f"the store of files, {device.opened.config.content.store}, refuses: {trouble}",
            "AWS_ACCESS_KEY_ID and so on have to stand in the agent's environment; http:// needs AWS_ALLOW_HTTP=true",
        )
    if status.pinned_bytes > _NEARLY_FULL * status.maximum_bytes:
        yield warning(
            f"pinned files take {status.pinned_bytes} of {status.maximum_bytes} bytes: others have hardly any room",
            "covey content drop, covey content pin --off, or covey config set content.maximum_mb",
        )
    line = f"{count(status.here, 'file')} here, {status.here_bytes} of {status.maximum_bytes} bytes"
    line += f"; {status.wanted} on the way" if status.wanted else ""
    yield ok(line if status.peers is None else f"{line}; {count(status.peers, 'peer')} on this network")
