"""What an agent counts on its link is what a proxy in between has carried, and survives restarts and power cuts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from broker_conf.mosquitto import Broker
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_ENDINGS = 4_000
"""What the agent adds, in bytes, for what no socket tells: the names' queries, and the end of a process."""


class CountingProxy:
    """Carries TCP connections to a port, and counts the bytes in both directions."""

    def __init__(self, port: int) -> None:
        self.total = 0
        self._port = port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(65_536):
                with self._lock:
                    self.total += len(piece)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """End everything."""
        self._listener.close()
        for each in self._open:
            each.close()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[CountingProxy]:
    found = CountingProxy(broker.port)
    yield found
    found.close()


def test_the_agent_counts_what_a_proxy_carries(new_gateway: Callable[[str], Gateway], proxy: CountingProxy) -> None:
    collector, device = new_gateway("collector"), new_gateway("device")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(device)
    password = device.relay_password
    device.ok("relay", "set", proxy.url, "--password-file", "-", feed=password)

    joined = above_tcp(device)
    device.start("run", "--no-sensors")
    for number in range(20):
        device.ok("message", "send", "--text", f"number {number} " + "x" * 500)
    wait_until(lambda: device.queued() == 0, "all is acknowledged")
    device.end()
    costs = device.json("link")
    month, counted = costs["month"], above_tcp(device) - joined
    assert proxy.total <= counted <= proxy.total * 1.05 + _ENDINGS
    assert month["messages"] + month.get("resends", 0) >= 20 * 500
    assert month["tcp"] >= 100 * 52
    assert costs["today"] == month
    assert "this month (" in device.ok("status")
    assert 'covey_link_month_bytes{kind="messages"}' in device.ok("metrics")

    before, before_proxy = sum(month.values()), proxy.total
    device.start("run", "--no-sensors")
    for number in range(5):
        device.ok("message", "send", "--text", f"number {number}")
    wait_until(lambda: device.queued() == 0, "all is acknowledged")
    device.kill()
    device.start("run", "--no-sensors")
    wait_until(lambda: device.log.read_text().count("relay: connected") == 3, "it is back")
    device.end()
    assert sum(device.json("link")["month"].values()) >= before + proxy.total - before_proxy


def above_tcp(device: Gateway) -> int:
    """Return what a device counts above TCP."""
    return sum(size for kind, size in device.json("link")["month"].items() if kind not in {"tcp", "unknown"})


def test_a_budget_is_kept_and_leaves_room_for_what_is_urgent(new_gateway: Callable[[str], Gateway]) -> None:
    collector, device = new_gateway("collector"), new_gateway("device")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    collector.invite(device)
    device.ok("config", "set", "link.budget", "200 kB/day")
    for number in range(100):
        device.ok("message", "send", "--text", f"number {number} " + "x" * 2_500)
    device.start("run", "--no-sensors")
    wait_until(lambda: device.json("status")["relay"]["state"].startswith("resting"), "what fits has gone")
    left = device.queued()
    assert 0 < left < 100

    collector.ok("message", "send", "--text", "something new")
    device.ok("link", "open")
    wait_until(lambda: collector.queued() == 0, "the device has acknowledged it, within its reserve")
    assert device.queued() == left
    device.end()
    spent = device.json("link")
    assert sum(spent["today"].values()) < 200_000
    assert spent["left_bytes"] > 0
    assert "left of 200 kB/day" in device.ok("status")
    [cost] = [each["cost"] for each in collector.json("status")["members"]]
    assert (cost["budget_bytes"], cost["period"]) == (200_000, "day")
    assert 0 < cost["today_bytes"] <= sum(spent["today"].values())
    assert "of 200 kB/day" in collector.ok("fleet")


def test_a_budget_that_pays_for_nothing_is_refused(new_gateway: Callable[[str], Gateway]) -> None:
    device = new_gateway("device")
    for text in ("0 kB/day", "-1 MB/month", "5 kB/day", "20 KB", "20 kB/year"):
        assert "link.budget" in device.fails("config", "set", "link.budget", text, code=78)


def test_a_plan_predicts_and_suggests(new_gateway: Callable[[str], Gateway]) -> None:
    device = new_gateway("device")
    plan = device.json("link", "plan")
    assert plan["bytes_a_day"] == sum(plan["parts"].values())
    assert plan["suggestions"][-1]["bytes_a_day"] < plan["bytes_a_day"]
    assert "telemetry.batch_seconds" in device.ok("link", "plan")
    device.ok("config", "set", "link.budget", "20 kB/day")
    assert "this exceeds the budget" in device.ok("link", "plan")
    assert "this fits the budget" in device.ok("link", "plan", "--series", "0")
    assert "out of bounds" in device.fails("link", "plan", "--series", "-1", code=2)
