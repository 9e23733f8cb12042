"""What came of a year: the ledger's balances, and what the machines show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from bench.year.ledger import Balance
from bench.year.plan import LEAP_DAY, What
from bench.year.world import SPEED, World

_TIMES = """
SELECT value, CASE WHEN time_quality <> 'arrival' THEN epoch(time) END FROM readings WHERE author = ?
"""
"""Numbers and times; the tables say themselves that times of arrival are not those of the readings."""

_HEAD = ("device", "acknowledged", "missing", "duplicates", "foreign", "wrong times", "orders", "stale", "newest")


@dataclass(frozen=True, slots=True)
class Report:
    """The sums of a run."""

    days: int
    minutes: float
    begins: str
    balances: list[Balance]
    orders: int
    leap_day: int
    """Readings of 29 February in the tables."""
    gaps: int
    losses: int
    quarantined: int
    certificates: int
    """That the relay has had."""
    noise_keys: dict[str, int]
    rotations: int
    kills: int
    deaths: dict[str, int]
    """How often programs have ended by themselves, of the machines where some have."""
    tables: int
    failed_tables: list[str]
    refused: int
    full_disks: int
    lived_hours: float

    @classmethod
    def of(cls, world: World, seconds: float) -> Report:
        """Read the tables and the machines.

        Raises:
            CoveyError: the tables cannot be read.
        """
        from covey_ingest.committer.table_locations import location_at
        from covey_ingest.queries.views import create, opened, refresh

        location = location_at(str(world.tables))
        with opened(location) as database:
            refresh(database, location)
            create(database, wide=False)

            def ask(query: str, *values: object) -> list[tuple[Any, ...]]:
                return database.execute(query, values).fetchall()

            balances = [
                account.balance(
                    ask(_TIMES, world.edges[name].signing_public),
                    world.orders,
                )
                for name, account in world.accounts.items()
            ]
            leap_day = ask(
                "SELECT count(*) FROM readings WHERE epoch(time) >= ? AND epoch(time) < ?",
                LEAP_DAY.timestamp(),
                (LEAP_DAY + timedelta(days=1)).timestamp(),
            )
            gaps, losses, quarantined = (
                ask(f"SELECT count(*) FROM {rows}")[0][0]
                for rows in ("gaps WHERE state <> 'closed'", "losses", "quarantine")
            )
        plan = world.plan
        return cls(
            days=plan.days,
            minutes=round(seconds / 60, 1),
            begins=plan.begins.date().isoformat(),
            balances=balances,
            orders=world.orders,
            leap_day=leap_day[0][0],
            gaps=gaps,
            losses=losses,
            quarantined=quarantined,
            certificates=len(world.seen.certificates),
            noise_keys={name: len(keys) for name, keys in world.seen.noise_keys.items()},
            rotations=sum(each.rotations for each in world.machines),
            kills=world.seen.kills,
            deaths={each.name: each.deaths for each in world.machines if each.deaths},
            tables=world.seen.tables,
            failed_tables=world.seen.failed_tables,
            refused=sum(each.refused for each in world.accounts.values()),
            full_disks=sum(each.what is What.DISK_FULL for each in plan.events if world.hub.disk.real),
            lived_hours=round(world.seen.alive_s / 3_600, 1),
        )

    @property
    def is_right(self) -> bool:
        """Whether everything was read once, the newest order is obeyed, and nothing else went wrong."""
        return (
            all(each.is_right for each in self.balances)
            and not (self.gaps or self.losses or self.quarantined or self.deaths)
            and self.leap_day > 0
            and self.certificates > 1
        )

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "right": self.is_right, "version": version("covey"), "speed": SPEED}

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        yield ""
        widths = [max(len(head), 8) for head in _HEAD]
        for row in [_HEAD, *map(_cells, self.balances)]:
            yield "  ".join(
                f"{cell:<{width}}" if place == 0 else f"{cell:>{width}}"
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        keys = ", ".join(f"{name} {count}" for name, count in self.noise_keys.items())
        yield ""
        yield f"{self.orders} orders; readings of 29 February: {self.leap_day}"
        found = f"{self.gaps} gaps, {self.losses} losses, {self.quarantined} quarantined"
        yield f"tables, filled {self.tables} times: {found}"
        for said in self.failed_tables:
            yield f"the engine of the tables had to start again: {said}"
        yield f"relay: {self.certificates} certificates; noise keys seen: {keys}"
        yield f"{self.rotations} logs rotated; {self.kills} agents killed; ended by themselves: {self.deaths or 'none'}"
        yield f"{self.full_disks} full disks; readings refused meanwhile, and offered again: {self.refused}"
        yield (
            f"{self.days} days from {self.begins} in {self.minutes} minutes: {self.lived_hours} hours were lived at "
            f"{SPEED:g} times the speed, the others were jumped over"
        )
        yield "everything was read once, and the newest order is obeyed" if self.is_right else "error: see above"


def _cells(balance: Balance) -> tuple[str, ...]:
    numbers = (
        balance.acknowledged,
        balance.missing,
        balance.duplicates,
        balance.foreign,
        len(balance.wrong_times),
        balance.orders,
        balance.stale,
    )
    return (balance.device, *(f"{each:,}" for each in numbers), "yes" if balance.obeys_newest else "no")
