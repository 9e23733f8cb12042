"""Write to a group's history for a person: notes and the group's description."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from covey.adapters.wake_pipe import wake_agent
from covey.app.device.device import Device
from covey.app.history.history import pick_operation
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import GroupProfile, Note, Picture, is_mime_type
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation
from covey.errors import LimitError, LocalError, RemoteError, UsageError
from covey.limits.history import MAXIMUM_AVATAR_BYTES, MAXIMUM_DESCRIPTION_BYTES, MAXIMUM_TITLE_BYTES


def write_note(
    device: Device,
    manifest: GroupManifest,
    content: bytes,
    mime: str,
    about: str | None,
    replaces: str | None,
    *,
    typed: bool = False,
) -> Operation:
    """Add a note to a group's history; `about` and `replaces` are beginnings of operations' ids.

    What was `typed` on a command line is words.

    Raises:
        UsageError: no MIME type, or nothing to say.
        LocalError: nothing or several begin like that, or what is to be replaced is no note of this device.
    """
    check_note(content, mime, typed=typed)
    commented = pick_operation(device, manifest.group_id, about).id if about else None
    edited = pick_operation(device, manifest.group_id, replaces) if replaces else None
    if edited is not None and (
        edited.author != device.node.identity.signing_public or edited.kind != OperationKind.NOTE
    ):
        raise LocalError(
            f"{edited.id.hex()[:8]} is not a note by this device", hint="use --react to respond to notes by others"
        )
    if edited is not None and commented is None:
        commented = Note.from_wire(edited.body).about  # it goes on being about the same
    return write(device, manifest, Note(mime, content, commented, edited.id if edited else None))


def check_note(content: bytes, mime: str, *, typed: bool) -> None:
    """Check that a note has a type and a content.

    Raises:
        UsageError: it has not.
    """
    if not is_mime_type(mime):
        raise UsageError(f"'{mime[:64]}' is not a MIME type", hint="for example --mime text/plain or --mime image/png")
    if typed and not mime.startswith("text/"):
        raise UsageError(
            f"a note of type {mime[:64]} cannot be given as words",
            hint=f"read it from stdin: covey history post --mime {mime[:64]} < FILE",
        )
    if not content.strip():
        raise UsageError("the note is empty", hint="covey history post TEXT, or give the text on stdin")


def describe_group(
    device: Device, manifest: GroupManifest, title: str | None, description: str | None, avatar: Picture | None
) -> GroupProfile:
    """Say what a group is called, what it is for, and how it looks; None leaves what holds.

    Raises:
        LocalError: too long, no image, or in this group it is for admins to say.
    """
    for name, text, most in (
        ("title", title, MAXIMUM_TITLE_BYTES),
        ("description", description, MAXIMUM_DESCRIPTION_BYTES),
    ):
        if text is not None and (length := len(text.encode())) > most:
            raise LocalError(f"the {name} has {length} bytes", hint=f"at most {most}")
    held = group_profile(device, manifest)
    profile = GroupProfile(
        held.title if title is None else title,
        held.description if description is None else description,
        held.avatar if avatar is None else avatar,
    )
    write(device, manifest, profile)
    return profile


def read_picture(name: str) -> Picture:
    """Return a picture from a file; its suffix says what it is.

    Raises:
        UsageError: it cannot be read, is too large, or no image.
    """
    path = Path(name)
    mime = _IMAGES.get(path.suffix.lower())
    if mime is None:
        raise UsageError(f"{name} does not end like an image", hint=f"one of: {', '.join(_IMAGES)}")
    try:
        with path.open("rb") as source:
            content = source.read(MAXIMUM_AVATAR_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    if len(content) > MAXIMUM_AVATAR_BYTES:
        raise UsageError(f"{name} has more than {MAXIMUM_AVATAR_BYTES} bytes", hint="256 by 256 pixels are enough")
    return Picture(mime, content)


_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}


def group_profile(device: Device, manifest: GroupManifest) -> GroupProfile:
    """Return how a group is described; empty where nobody has said anything that counts."""
    return device.node.history.profile(manifest.group_id)


def write(device: Device, manifest: GroupManifest, body: OperationBody) -> Operation:
    """Add an operation of this device to a group's history; its agent sends it at once.

    Raises:
        LocalError: it is beyond a bound, or not for this device to say.
    """
    return write_together(device, [(manifest, body)])[0]


def write_together(device: Device, bodies: Sequence[tuple[GroupManifest, OperationBody]]) -> list[Operation]:
    """Add operations of this device to the histories of groups: all of them, or none.

    Raises:
        LocalError: one is beyond a bound, or not for this device to say.
    """
    for _, body in bodies:
        try:
            type(body).from_wire(body.to_wire())
        except RemoteError as error:
            too_long = isinstance(error, LimitError)
            hint = "send longer content as a file: covey file put FILE" if too_long else "give another value"
            raise LocalError(f"members would refuse that: {error}", hint=hint) from error
    with all_or_nothing(device):
        return [device.node.history.write(group.group_id, body, device.now()) for group, body in bodies]


@contextmanager
def all_or_nothing(device: Device) -> Iterator[None]:
    """Open a transaction on what is stored, and wake the agent when it is committed; within another one, join that.

    If it fails, read again what the node had changed in memory.
    """
    if device.store.is_writing:
        yield
        return
    try:
        with device.store.transaction():
            take_up_others(device)
            device.store.after_commit(lambda: wake_agent(device.folder.wake_pipe))
            yield
    except BaseException:
        device.node.refresh()
        raise


def take_up_others(device: Device) -> None:
    """Take up what another process of this device has written since it was read, within the transaction that writes."""
    if device.store.is_behind():
        device.node.refresh()
