"""Group manifests: size and time to accept one, by number of members; N rivals; and what merges a split group.

The peer of the accept time is the one Ed25519 verification that no design can do without, and of N rivals, which all
follow the same manifest, N times that. The peer of the convergence is a perfect broadcast: each manifest delivered once
to each member that did not issue it. Times are of the processor.
"""

from __future__ import annotations

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, read_manifest, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId, ManifestHash
from covey.core.membership.membership import Edit
from covey.limits.group import MEMBER_ALLOWANCE
from tests.fleet import Device, settled
from tests.split_network import STEP_S, SplitNetwork

_REPEATS = 20
_RIVALS = (50, 100, 200, 400)
_RIVALS_OF_ONE = 8
_BUNDLE = 64
_SPLIT_MEMBERS = 50
_SPLIT_STEPS = int(60 / STEP_S)


def _identity(chance: random.Random) -> Identity:
    return Identity.from_seeds(chance.randbytes(32), chance.randbytes(32))


def crowd(count: int, chance: random.Random) -> tuple[GroupManifest, Identity]:
    """Return a manifest of `count` members, and one who may issue the next."""
    issuer = _identity(chance)
    first = genesis(GroupId(chance.randbytes(32)), Member(issuer.keys, "gateway"), secret_id(b""))
    others = [Member(_identity(chance).keys, "kitchen") for _ in range(count - 1)]
    members = sorted([*first.members, *others], key=lambda member: member.keys.signing_public)
    grown = GroupManifest(
        first.group_id,
        2,
        (ManifestHash(bytes(32)),),
        first.mode,
        None,
        tuple(members),
        (),
        1,
        first.epoch_id,
        (),
        first.issuer,
    )
    return sign_manifest(grown, issuer), issuer


def _measure_accepting(count: int, chance: random.Random) -> tuple[int, float, float]:
    """Return (bytes, seconds to accept, seconds of one signature's verification)."""
    held, issuer = crowd(count, chance)
    victim = next(each for each in held.members if each.keys.signing_public != issuer.signing_public)
    following = sign_manifest(held.removing(victim.keys.signing_public, secret_id(b"next")), issuer)
    best = bare = float("inf")
    signature = crypto.sign(b"bench", following.raw, issuer)
    for _ in range(_REPEATS):
        trust = GroupTrust(held.group_id, held)
        start = time.perf_counter()
        trust.update(following.raw)
        best = min(best, time.perf_counter() - start)
        start = time.perf_counter()
        crypto.verify(b"bench", following.raw, signature, issuer.signing_public)
        bare = min(bare, time.perf_counter() - start)
    return len(following.raw), best, bare


def _measure_rivals(count: int, chance: random.Random) -> tuple[float, float, float]:
    """Return seconds to accept rivals that came in messages of 64, to read them again, and to verify as many."""
    founder = _identity(chance)
    issuers = [_identity(chance) for _ in range(max(_RIVALS) // _RIVALS_OF_ONE)]
    first = genesis(GroupId(chance.randbytes(32)), Member(founder.keys), secret_id(b""))
    others = [Member(each.keys, allowance=MEMBER_ALLOWANCE) for each in issuers]
    members = sorted([*first.members, *others], key=lambda each: each.keys.signing_public)
    held = sign_manifest(replace(first, version=2, prev=(ManifestHash(bytes(32)),), members=tuple(members)), founder)
    raws = []
    for number in range(count):
        issuer = issuers[number % len(issuers)]
        own = held.member(issuer.signing_public)
        assert own is not None
        raws.append(sign_manifest(held.changing(replace(own, label=f"{number}")), issuer).raw)
    trust = GroupTrust(held.group_id, held)
    rivals = [read_manifest(raw) for raw in raws]
    start = time.process_time()
    for number, rival in enumerate(rivals):
        trust.offer(rival)
        if number % _BUNDLE == _BUNDLE - 1:
            assert trust.current is not None
    accepting = time.process_time() - start
    start = time.process_time()
    for raw in raws:
        read_manifest(raw)
    reading = time.process_time() - start
    signature = crypto.sign(b"bench", raws[0], founder)
    start = time.process_time()
    for _ in range(count):
        crypto.verify(b"bench", raws[0], signature, founder.signing_public)
    return accepting, reading, time.process_time() - start


def _measure_merging(chance: random.Random, folder: Path) -> tuple[float, int, int]:
    """Split 50 members in two, remove one on each side, merge; return (seconds, messages, ideal)."""
    devices = [Device(f"{number}", folder, chance=chance) for number in range(_SPLIT_MEMBERS)]
    group_id = GroupId(settled(*devices))
    for issuer, target in ((devices[0], devices[3]), (devices[1], devices[2])):
        with issuer.store.transaction():
            issuer.node.actions.change(group_id, _removing(target.key), issuer.now)
    inside = [device for place, device in enumerate(devices) if place not in {2, 3}]

    def agreed() -> bool:
        held = {device.node.groups.group(group_id).raw for device in inside}
        return len(held) == 1 and b"" not in held

    network = SplitNetwork(devices, chance, loss=0)
    network.apart = set(devices[1::2])
    for _ in range(_SPLIT_STEPS):
        network.step()
    network.apart, met_us = set(), network.now.monotonic_us
    network.run(agreed)
    return (network.now.monotonic_us - met_us) / 1e6, network.sent, 3 * (len(inside) - 1)


def _removing(key: DeviceKey) -> Edit:
    return lambda draft, epoch_id: draft.removing(key, epoch_id)


def main() -> None:
    """Print the tables."""
    chance = random.Random(1)
    print(f"{'members':>8} {'bytes':>8} {'accept':>10} {'one signature':>14}")
    for count in (10, 100, 1_000):
        size, accept, bare = _measure_accepting(count, chance)
        print(f"{count:>8} {size:>8} {accept * 1e3:>7.2f} ms {bare * 1e3:>11.2f} ms")
    print(f"{'rivals':>8} {'accepted':>10} {'each':>10} {'read':>10} {'as many signatures':>19}")
    for count in _RIVALS:
        accepting, reading, bare = _measure_rivals(count, chance)
        each = accepting / count * 1e6
        print(f"{count:>8} {accepting:>8.3f} s {each:>7.0f} us {reading:>8.3f} s {bare:>17.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        seconds, messages, ideal = _measure_merging(chance, Path(folder))
    print(
        f"{_SPLIT_MEMBERS} members, split for a minute, one removed on each side: agreed {seconds:.1f} s after they met"
    )
    print(f"again (simulated); {messages} messages, retries included, acknowledgements not.")
    print(f"A perfect broadcast of the 3 manifests needs {ideal}.")


if __name__ == "__main__":
    main()
