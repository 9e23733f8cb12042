"""`covey.client_async` on real agents: what `Client` does, without waiting for one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from covey.client import Client
from covey.client_async import AsyncClient
from covey.errors import AgentUnreachableError, CoveyError, LocalError
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.broker


def _run(gateway: Gateway) -> AsyncClient:
    gateway.start("run", "--no-sensors")
    path = gateway.state / "api.sock"
    wait_until(lambda: path.is_socket() and Client(path).answers(), "the agent answers")
    return AsyncClient(path)


@pytest.fixture
def agent(new_gateway: Callable[[str], Gateway]) -> tuple[AsyncClient, Gateway]:
    """An agent that collects for itself."""
    one = new_gateway("one")
    one.ok("config", "set", "api.socket", "api.sock")
    one.ok("group", "create", "--capability", "collector")
    return _run(one), one


def test_both_clients_have_the_same_calls() -> None:
    public = {name for name in vars(Client) if not name.startswith("_")}
    asynchronous = {name for name in vars(AsyncClient) if not name.startswith("_")}
    assert public - asynchronous == {"answers", "close", "content"}, "only the blocking one keeps connections"


def test_many_requests_are_under_way_at_a_time(agent: tuple[AsyncClient, Gateway]) -> None:
    covey, one = agent

    async def publish() -> list[int]:
        each = ([{"n": f"s{number}", "v": number}] for number in range(20))
        return await asyncio.gather(*(covey.publish(readings) for readings in each))

    assert asyncio.run(publish()) == [1] * 20
    assert one.counters()["published_readings"] == 20
    large = [{"n": "large", "vs": "x" * 1_000}] * 1_500  # two requests
    assert asyncio.run(covey.publish(large)) == 1_500


def test_the_client_raises_the_agents_refusal_and_reports_an_absent_agent(
    agent: tuple[AsyncClient, Gateway], tmp_path: Path
) -> None:
    covey, one = agent
    with pytest.raises(CoveyError) as blocking:
        Client(one.state / "api.sock").send(b"x", to="nobody")
    with pytest.raises(CoveyError) as refused:
        asyncio.run(covey.send(b"x", to="nobody"))
    assert (type(refused.value), str(refused.value)) == (type(blocking.value), str(blocking.value))
    with pytest.raises(LocalError):
        asyncio.run(covey.own())
    with pytest.raises(AgentUnreachableError, match="no agent answers") as absent:
        asyncio.run(AsyncClient(tmp_path / "none.sock").status())
    assert "systemctl status covey" in absent.value.hint
    with pytest.raises(ValueError, match="one line"):
        asyncio.run(covey.send(b"x", key="a\r\nHost: b"))


def test_events_go_on_over_a_restart_of_the_agent(agent: tuple[AsyncClient, Gateway]) -> None:
    covey, one = agent

    async def follow() -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(GUARD_S), aclosing(covey.events("0", types=["operation"])) as events:
            async for event in events:
                found.append(event.data["text"])
                if found == ["first"]:
                    await asyncio.to_thread(_restart, one)
                if len(found) == 2:
                    break
        return found

    one.ok("history", "post", "first")
    assert asyncio.run(follow()) == ["first", "while nobody answers"]

    async def written() -> list[str]:
        return [entry["text"] async for entry in covey.history(type="note")]

    assert asyncio.run(written()) == ["first", "while nobody answers"]


def _restart(one: Gateway) -> None:
    one.kill()
    one.ok("history", "post", "while nobody answers")
    _run(one)


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_a_client_that_stops_reading_leaves_no_connection(agent: tuple[AsyncClient, Gateway]) -> None:
    covey, _ = agent

    async def listen_in_vain() -> None:
        before = _open_files()
        for _ in range(3):
            listening = asyncio.ensure_future(anext(covey.inbox(follow_s=600)))
            assert not (await asyncio.wait([listening], timeout=0.02))[0]
            listening.cancel()
            await asyncio.wait([listening])
        assert _open_files() == before

    asyncio.run(listen_in_vain())
