"""What members share, who can fill it, and what the others can do then: each answer names the test that shows it.

A new bound on what several members use together belongs here, with the test in which one of them, or all but one of
them, fill it.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class _Shared:
    """One thing that members share."""

    limit: str
    filled_by: str
    then: str
    test: str


_SHARED = (
    _Shared(
        "history.LOGS_OF_ONE",
        "any member, with incarnations that it makes up; an accomplice follows as many as it may",
        "every other member has its own logs; a newcomer writes",
        "unit/core/history/test_history_shares.py::test_two_members_that_lift_each_others_limits_take_no_room_from_a_newcomer",
    ),
    _Shared(
        "history.LOGS_OF_ONE",
        "liars that show each member other logs",
        "what an honest member follows is kept by everybody, and everybody keeps the same",
        "unit/core/history/test_history_shares.py::test_two_liars_that_show_each_member_other_logs_silence_nobody",
    ),
    _Shared(
        "history.LOGS_BEHIND",
        "a member whose operations follow more and more logs of an accomplice",
        "others refuse the operations that follow too much, and nothing else",
        "unit/core/history/test_history_shares.py::test_nobody_follows_more_logs_of_one_author_than_others_take",
    ),
    _Shared(
        "history.FAMILY_BYTES_BEHIND",
        "a member that lets devices in and removes them again, without end",
        "others keep so much of all of them; what others write, and those that they let in, is followed as ever",
        "unit/core/history/test_history_shares.py::test_a_member_that_lets_in_and_removes_devices_makes_others_keep_a_bounded_total",
    ),
    _Shared(
        "history.BYTES_BEHIND",
        "accomplices that follow what a member's guests have written",
        "others refuse the operations that follow too much, and nothing else",
        "unit/core/history/test_history_shares.py::test_nobody_takes_what_follows_more_of_a_family_than_others_follow",
    ),
    _Shared(
        "history.GROUP_BYTES_BEHIND",
        "a founder that lets devices in and removes them again, without end",
        "members do not follow more; each still writes, and all take it",
        "unit/core/history/test_history_shares.py::test_a_founder_that_lets_in_and_removes_devices_silences_nobody",
    ),
    _Shared(
        "history.MAXIMUM_AUTHOR_BYTES",
        "any member",
        "every other member has its own share",
        "unit/core/history/test_acceptance.py::test_of_one_author_so_many_bytes_are_taken",
    ),
    _Shared(
        "history.VOID_PART",
        "a former member that goes on writing",
        "what it wrote in vain is dropped; what others follow stays",
        "unit/core/history/test_history_shares.py::test_what_a_former_member_said_in_vain_is_dropped_beyond_a_small_share",
    ),
    _Shared(
        "history.FORKS_OF_ONE",
        "an author under one of its own numbers",
        "the lowest two are kept everywhere, and what others follow",
        "unit/core/history/test_history.py::test_of_rivals_the_lowest_are_kept_in_whatever_order_they_come",
    ),
    _Shared(
        "history.AWAITED",
        "a member whose operations wait for what never comes",
        "what other members' operations wait for is fetched",
        "unit/core/history/test_awaited.py::test_what_one_author_waits_for_takes_no_room_from_another",
    ),
    _Shared(
        "history.HEADS_AT_ONCE",
        "any member, with heads that nobody has followed",
        "one note costs nine operations at most, and joins each other author's head first",
        "unit/core/history/test_history_shares.py::test_of_too_many_heads_each_authors_highest_is_joined_first",
    ),
    _Shared(
        "mailbox.INBOX_BLOBS",
        "one sender",
        "every other sender has its share of the inbox",
        "unit/core/mailbox/test_service.py::test_one_sender_that_fills_an_inbox_keeps_no_other_one_out",
    ),
    _Shared(
        "mailbox.INBOX_BYTES_KEPT",
        "one sender",
        "every other sender has its share of the mailbox",
        "unit/adapters/sqlite/test_mailbox.py::test_one_sender_that_fills_the_mailbox_keeps_no_other_one_out",
    ),
    _Shared(
        "mailbox.PUSHES_PER_SECOND",
        "one sender",
        "every other sender pushes at its own rate",
        "unit/core/mailbox/test_service.py::test_one_sender_that_pushes_all_the_time_keeps_no_other_one_out",
    ),
    _Shared(
        "mailbox.ANSWERS_WAITING",
        "one device that asks all the time",
        "others are answered",
        "unit/core/mailbox/test_service.py::test_one_devices_questions_push_out_no_answers_to_others",
    ),
    _Shared(
        "ephemeral.EPHEMERAL_KEPT",
        "one member with ephemeral messages",
        "programs still read those of every other member",
        "unit/core/ephemeral/test_messages.py::test_one_author_pushes_out_only_its_own_messages",
    ),
    _Shared(
        "storage.LANDING_BYTES",
        "one sender of telemetry while the vault refuses writes",
        "every other sender lands its share",
        "unit/adapters/sqlite/link/test_landing.py::test_one_sender_that_fills_the_landing_keeps_no_other_one_out",
    ),
    _Shared(
        "storage.SCARCE_BYTES_PER_SECOND",
        "one sender of telemetry that fills the vault's disk",
        "from a tenth of free space on, every sender lands its share",
        "unit/adapters/sqlite/link/test_landing.py::test_on_a_disk_that_is_nearly_full_one_sender_lands_its_share_and_others_theirs",
    ),
    _Shared(
        "storage.INBOX_BYTES",
        "one sender of blobs that no program takes",
        "every other sender has its share",
        "unit/adapters/sqlite/link/test_inbox.py::test_one_sender_that_fills_the_inbox_keeps_no_other_one_out",
    ),
    _Shared(
        "storage.QUARANTINED_MESSAGES",
        "one device with messages that nobody can use",
        "what others have sent stays to be looked at",
        "unit/adapters/sqlite/test_store.py::test_one_devices_bad_messages_hide_nobody_elses",
    ),
    _Shared(
        "group.OPEN_VOTES",
        "an admin that votes about everything",
        "every other admin has its share of open votes",
        "unit/adapters/sqlite/membership/test_groups.py::test_an_admin_that_votes_about_everything_keeps_no_other_admins_votes_out",
    ),
    _Shared(
        "group.MESSAGES_AHEAD",
        "members that send messages of manifests that never come",
        "one message of each other member waits",
        "unit/adapters/sqlite/membership/test_groups.py::test_early_messages_are_bounded_by_author_and_in_total",
    ),
    _Shared(
        "pairing.MAXIMUM_GROUP_REQUESTS",
        "members that invite this device all the time",
        "one invitation of each other member waits for a person",
        "unit/core/membership/test_requests.py::test_nor_can_many",
    ),
    _Shared(
        "pairing.PAIRING_TRY_US",
        "a stranger with wrong proofs",
        "an honest joiner is delayed by seconds",
        "unit/core/pairing/test_ceremony_strangers.py::test_a_stranger_that_guesses_all_the_time_does_not_keep_the_joiner_out",
    ),
    _Shared(
        "rate.ALL_TOKENS",
        "one author with worthless envelopes",
        "its own tokens end first",
        "unit/core/link/test_rates.py::test_worthless_envelopes_end_an_authors_tokens_and_nobody_elses",
    ),
    _Shared(
        "link.LINK_WINDOW_HISTORY_MESSAGES",
        "messages of groups that a restored device has lost, which it never takes",
        "the messages of other groups take turns with them",
        "unit/core/link/test_send_window.py::test_messages_that_a_recipient_never_accepts_fill_no_window",
    ),
    _Shared(
        "heads.NEWS_US",
        "control messages that a restored device never takes",
        "reports and requests of other groups go all the same",
        "unit/core/history/test_heads.py::test_messages_that_a_restored_member_never_takes_do_not_stop_another_groups_history",
    ),
    _Shared(
        "group.RIVALS_OF_ONE",
        "an issuer with rivals of its own manifests",
        "each issuer has its own, and the same ones hold everywhere",
        "unit/core/membership/test_membership_flood.py::test_one_issuers_rivals_are_bounded_and_hold_nothing_up",
    ),
    _Shared(
        "group.MAXIMUM_OPEN_MANIFESTS",
        "a member with issuers that it makes up",
        "the removal of that member counts",
        "unit/core/membership/test_membership_flood.py::test_issuers_made_up_by_a_member_fill_no_graph",
    ),
    _Shared(
        "group.MEMBER_ALLOWANCE",
        "a member that issues manifests, and lets devices in and removes them again, without end",
        "nobody takes more than its allowance pays for; every other member still changes the group",
        "unit/core/group/test_allowance.py::test_a_member_that_lets_devices_in_and_removes_them_comes_to_an_end",
    ),
    _Shared(
        "group.SELF_JOINED_MEMBERS",
        "strangers that let themselves into a public group",
        "admins add members all the same",
        "unit/core/membership/test_public_joins.py::test_strangers_leave_room_for_members_that_admins_add",
    ),
    _Shared(
        "pairing.PUBLIC_VISITORS",
        "strangers with the URI of a public group",
        "each visitor gives its room back after a while",
        "unit/core/membership/test_public_joins.py::test_visitors_take_up_a_bounded_room_for_a_bounded_time",
    ),
    _Shared(
        "heads.FORMER_LOOK_SECONDS",
        "strangers that report groups",
        "members are answered, as their reports are not counted",
        "unit/core/membership/test_former_members.py::test_only_so_many_reports_of_strangers_are_looked_at",
    ),
    _Shared(
        "content.PARTS_PER_SECOND",
        "a member that requests files all the time",
        "every other member is given parts at its own rate",
        "unit/core/content/test_exchange.py::test_a_member_is_given_so_much_in_a_second_for_ever",
    ),
    _Shared(
        "content.SERVED_MEMBERS",
        "members that request files at the same time",
        "they are served and give their places back",
        "unit/core/content/test_exchange.py::test_so_many_members_are_served_at_once",
    ),
    _Shared(
        "content.LAN_CLIENTS",
        "idle connections from the local network",
        "a new client gets the place of an idle one",
        "unit/adapters/lan/test_peer.py::test_an_idle_client_gives_its_place_to_a_new_one",
    ),
    _Shared(
        "actions.RESULTS_OF_ONE",
        "a device with results of orders",
        "every other device has its own room",
        "unit/core/actions/test_received.py::test_a_device_takes_the_room_of_nobody_else",
    ),
    _Shared(
        "board.MAXIMUM_UDP_STRANGERS",
        "addresses that pretend to be boards",
        "a member keeps its line",
        "unit/covey_boards/test_udp_lines.py::test_strangers_are_bounded_and_a_member_keeps_its_line",
    ),
    _Shared(
        "broker.SUBSCRIBED_LEVELS",
        "an account that subscribes without end",
        "that account alone is shut out",
        "integration/test_served_relay.py::test_an_account_that_subscribes_without_end_is_shut_out_and_nobody_else",
    ),
    _Shared(
        "pairing.MAXIMUM_GROUP_REQUESTS_OF_ONE",
        "an own device that invites life after life",
        "every other own device keeps its room",
        "unit/core/own/test_own_devices.py::test_an_own_device_fills_no_other_one_with_groups",
    ),
)


@pytest.mark.parametrize("shared", _SHARED, ids=lambda each: each.test.rpartition("::")[2])
def test_each_shared_limit_names_a_test_of_its_effect_on_others(shared: _Shared) -> None:
    module, _, name = shared.limit.partition(".")
    assert isinstance(getattr(importlib.import_module(f"covey.limits.{module}"), name), int | float)
    assert shared.filled_by
    assert shared.then
    path, _, test = shared.test.partition("::")
    assert re.search(rf"^def {test}\(", (_TESTS / path).read_text(), re.MULTILINE), "there is no such test"
