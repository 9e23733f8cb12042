"""The peer of a group's history: the same operations as commits with the same parents, signed as `ssh-keygen` does.

git fetches them without verifying any: what that takes is measured beside, on some of them.
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacl.signing import SigningKey

from covey.core.history.operation import Operation
from covey.core.ids import DeviceKey, OperationId

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_VERIFIED = 50
_LINE = 70


@dataclass(frozen=True, slots=True)
class Fetched:
    """What fetching commits took: bytes of the pack, seconds of the processor, and those of verifying one of them."""

    bytes: int
    seconds: float
    verify_s: float


def fetch_signed(folder: Path, held: Sequence[Operation], missing: Sequence[Operation]) -> Fetched:
    """Measure what a repository that has some commits needs to fetch the others, which follow them."""
    source, target = folder / "source", folder / "target"
    for each in (source, target):
        _git("init", "--quiet", "--bare", str(each))
    keys = {
        author: SigningKey(hashlib.sha256(author).digest()) for author in {each.author for each in (*held, *missing)}
    }
    commits: dict[OperationId, str] = {}
    _write(source, held, keys, commits)
    _fetch(source, target)
    packs = set(target.rglob("*.pack"))
    _write(source, missing, keys, commits)
    before = _children_s()
    _fetch(source, target)
    seconds = _children_s() - before
    size = sum(each.stat().st_size for each in set(target.rglob("*.pack")) - packs)
    return Fetched(size, seconds, _verify(target, folder / "signers", missing, keys, commits))


def _write(
    repository: Path,
    operations: Iterable[Operation],
    keys: dict[DeviceKey, SigningKey],
    commits: dict[OperationId, str],
) -> None:
    """Write commits, let references name those that nothing follows, and pack them."""
    heads: dict[OperationId, str] = {}
    for operation in operations:
        commits[operation.id] = heads[operation.id] = _commit(repository, operation, keys[operation.author], commits)
        for parent in operation.parents:
            heads.pop(parent, None)
    references = "".join(f"update refs/heads/{each.hex()} {name}\n" for each, name in heads.items())
    _git("-C", str(repository), "update-ref", "--stdin", feed=references.encode())
    _git("-C", str(repository), "repack", "-a", "-d", "-q")


def _commit(repository: Path, operation: Operation, key: SigningKey, commits: dict[OperationId, str]) -> str:
    who = f"{operation.author.hex()[:8]} <{operation.author.hex()[:8]}@covey> {operation.height} +0000"
    parents = "".join(f"parent {commits[each]}\n" for each in operation.parents)
    head = f"tree {_EMPTY_TREE}\n{parents}author {who}\ncommitter {who}\n".encode()
    said = b"\n" + operation.body + b"\n"
    signature = _armoured(key, head + said).replace(b"\n", b"\n ")
    content = head + b"gpgsig " + signature + b"\n" + said
    stored = b"commit %d\0%b" % (len(content), content)
    name = hashlib.sha1(stored).hexdigest()
    path = repository / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(stored, 1))
    return name


def _armoured(key: SigningKey, message: bytes) -> bytes:
    public = _text(b"ssh-ed25519") + _text(key.verify_key.encode())
    hashed = _text(b"git") + _text(b"") + _text(b"sha512")
    signed = key.sign(b"SSHSIG" + hashed + _text(hashlib.sha512(message).digest())).signature
    blob = b"SSHSIG" + (1).to_bytes(4) + _text(public) + hashed + _text(_text(b"ssh-ed25519") + _text(signed))
    text = b64encode(blob)
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return b"\n".join([b"-----BEGIN SSH SIGNATURE-----", *lines, b"-----END SSH SIGNATURE-----"])


def _text(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def _fetch(source: Path, target: Path) -> None:
    words = ("fetch", "--quiet", f"file://{source}", "+refs/heads/*:refs/heads/*", "--prune")
    _git("-C", str(target), "-c", "fetch.unpackLimit=1", *words)


def _verify(
    repository: Path,
    signers: Path,
    operations: Sequence[Operation],
    keys: dict[DeviceKey, SigningKey],
    commits: dict[OperationId, str],
) -> float:
    """Return seconds of the processor to verify one commit; every one must hold."""
    publics = (_text(b"ssh-ed25519") + _text(key.verify_key.encode()) for key in keys.values())
    signers.write_text("".join(f"* ssh-ed25519 {b64encode(each).decode()}\n" for each in publics))
    some = [commits[each.id] for each in operations[:_VERIFIED]]
    before = _children_s()
    allowed = f"gpg.ssh.allowedSignersFile={signers}"
    _git("-C", str(repository), "-c", allowed, "verify-commit", *some)
    return (_children_s() - before) / len(some)


def _git(*words: str, feed: bytes = b"") -> None:
    subprocess.run(["git", *words], input=feed, check=True, capture_output=True)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
