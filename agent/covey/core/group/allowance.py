"""What a manifest costs its issuer: so nobody issues manifests without end (docs/protocol/groups.md, section 35,
*Allowances*; ADR 119).

Every member keeps every accepted manifest of its groups, and gives them to newcomers. So each member's record says how
many pages of manifests, of `MANIFEST_PAGE_BYTES` each, it can still issue: its *allowance*. A genesis gives all of them
to the founder.

    1. A manifest costs its issuer its length in pages, and the same once more for each device that it lets in, because
       leaving is free. What the issuer gives to these devices, it loses.
    2. The issuer's allowance falls by that much, or more. Nobody else's changes.
    3. After a manifest that does anything but remove members, the issuer keeps enough for `RESERVED_REMOVALS` of the
       same length, and `RESERVED_PAGES`. So it can always remove a hostile member.
    4. A manifest by which its issuer leaves is free, and carries no votes. So is one by which a stranger lets itself
       into a public group; that gives it at most `STRANGER_ALLOWANCE`.
    5. In a mode with admins these pay nothing, and give at most `MEMBER_ALLOWANCE` to a device that they let in.

The state before decides all of it, so it depends on nothing later or concurrent, and a newcomer judges as everybody
else does. The resolver charges rivals together (`resolver.py`, rule 6). How much a member gives to those that it lets
in is its own choice: `sign_manifest` gives a part of what is left, and nothing to boards, which issue nothing.

Example: the founder lets in mallory, which gets 262,144 pages. Mallory lets in 900 devices of its own and gives them
nothing. That manifest has 19 pages, so it costs 901 times 19: 17,119. The manifest that removes them again has one.
Mallory can do this 15 times; everybody refuses the next one, but takes mallory's later removals of other devices.
"""

from __future__ import annotations

from covey.core.group.manifest import GroupManifest, Member, is_exempt, pages, reserve
from covey.core.group.resolver import Change, GroupState
from covey.core.ids import DeviceKey
from covey.errors import LimitError, MalformedError
from covey.limits.group import MEMBER_ALLOWANCE, STRANGER_ALLOWANCE


def spent_by(issuer: DeviceKey, before: GroupState, after: GroupState) -> int:
    """Return what an issuer's allowance falls by; nothing for one that comes or goes by its own manifest."""
    if issuer not in before.members or issuer not in after.members:
        return 0
    return before.members[issuer].allowance - after.members[issuer].allowance


def changes_of(group: GroupManifest, member: Member) -> int | None:
    """Return how often a member can still change a group whose list of members stays as long as it is.

    After that it can only remove members. None: without end, or the group is in conflict and nobody can say.
    """
    if not group.raw or is_exempt(group.mode, member):
        return None
    return max(0, member.allowance - reserve(len(group.raw))) // pages(len(group.raw))


def check_payment(manifest: GroupManifest, before: GroupState, change: Change) -> None:
    """Check rules 1 to 5 for a manifest that makes `change` to `before`, and that its issuer may make.

    Raises:
        LimitError: its issuer cannot pay for it, or gives more than it may.
        MalformedError: rule 2 or 4.
    """
    issuer = manifest.issuer
    after = GroupState.of(manifest)
    kept = after.members.keys() & before.members.keys() - {issuer}
    if any(after.members[key].allowance != before.members[key].allowance for key in kept):
        raise MalformedError("a manifest must not change the allowance of others")
    payer = before.members.get(issuer)
    most_given = max((member.allowance for member in change.added.values()), default=0)
    if payer is None or issuer in change.removed:
        if manifest.votes:
            raise MalformedError("a member that comes or goes by its own manifest carries no votes")
        if most_given > STRANGER_ALLOWANCE:
            raise LimitError(f"a device that lets itself in has an allowance of {STRANGER_ALLOWANCE} at most")
        return
    spent = spent_by(issuer, before, after)
    if is_exempt(manifest.mode, payer):
        if spent:
            raise MalformedError("an admin's allowance must not change")
        if most_given > MEMBER_ALLOWANCE:
            raise LimitError(f"an admin gives an allowance of {MEMBER_ALLOWANCE} at most")
        return
    given = sum(member.allowance for member in change.added.values())
    if spent < pages(len(manifest.raw)) * (1 + len(change.added)) + given:
        raise LimitError("the issuer pays too little for the manifest")
    if after.members[issuer].allowance < (0 if _only_removes(before, change) else reserve(len(manifest.raw))):
        raise LimitError("the issuer has used up its allowance")


def _only_removes(before: GroupState, change: Change) -> bool:
    removes = bool(change.removed) and change.removed <= before.members.keys()
    return removes and not (change.added or change.touched or change.unbanned)
