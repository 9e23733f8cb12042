"""Plausible mistakes of a device that keeps a budget or connects in windows: some metered world must notice each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from covey.app.loop import link_windows
from covey.app.loop.link_costs import LinkCosts
from covey.app.loop.link_windows import LinkWindows
from covey.core import node
from covey.core.ids import DeviceKey
from covey.core.link import budget as budget_module
from covey.core.link.budget import Budget
from covey.core.link.connect_windows import ConnectWindows
from covey.core.link.costs import KINDS
from covey.core.link.send_window import SendLink
from covey.core.link.windows import Windows
from tests.sim import metered
from tests.sim.mutants import Mutant


def _nothing(*_arguments: object, **_named: object) -> None:
    """Do nothing."""


def _yes(*_arguments: object, **_named: object) -> bool:
    return True


def _no(*_arguments: object, **_named: object) -> bool:
    return False


def _readings_first(windows: Windows, wanted: Callable[[DeviceKey], bool] = lambda _: True) -> Iterator[SendLink]:
    for turns in reversed(windows._served_in_order):
        yield from windows._busy([link for link in turns.links.values() if wanted(link.recipient)])


def _never(*_arguments: object, **_named: object) -> int:
    return 10**18


METERED_MUTANTS = (
    Mutant("a budget is no bound for messages", {(Budget, "may_spend"): _yes}),
    Mutant("a budget is no bound for windows", {(LinkWindows, "_pays"): _yes, (LinkWindows, "_pays_urgently"): _yes}),
    Mutant("a power cut hides a connection", {(LinkCosts, "opens"): _nothing}, first_seed=3009),
    Mutant("what is under way costs nothing", {(LinkCosts, "_uncounted"): property(lambda _: 0)}),
    Mutant("a relay may have any number of deliveries under way", {(Budget, "deliveries"): property(lambda _: 100)}),
    Mutant("readings use the reserve", {(budget_module, "URGENT"): frozenset(KINDS)}),
    Mutant("orders are no more urgent than notes", {(node, "is_urgent"): _no, (link_windows, "is_urgent"): _no}),
    Mutant("readings go first", {(Windows, "serving"): _readings_first}),
    Mutant("an alarm waits for the next window", {(metered, "ask_for_window"): _nothing}),
    Mutant("a window never ends", {(ConnectWindows, "_closes_us"): _never}),
    Mutant("a window ends while something moves", {(LinkWindows, "moved"): _nothing}),
    Mutant("no window follows the first", {(ConnectWindows, "next_us"): _never}),
)
