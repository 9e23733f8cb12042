"""Small messages, one by one: 200 bytes from device to device, against raw paho and against a crash-safe bridge.

1. Ours: two agents and one mosquitto. Counts until the sender knows that its recipient has the last message on its
   disk: signed, sealed, committed at both ends. Once with 256 messages in each commit; once through the local API by
   eight callers at the same time, each of which sends its next message when the last one is answered, on the disk.
   The callers are threads of one program with `covey.client`; each has one request under way.
2. Raw paho at QoS 1 over the same broker, to a subscriber that appends to a file: neither end is durable.
3. Paho at QoS 1 into one mosquitto, bridged to another, to a subscriber with a session. Both brokers save their queues
   after each change, which is what mosquitto offers against a crash. Counts until the subscriber has all.

Both peers' caller is one paho client, which has up to 1,000 publishes under way and waits for none.

Round by round, one after the other, on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.messages.small_sender import SIZE
from bench.processes import await_ready, feed, go, start
from broker_conf.mosquitto.broker import Broker
from demo.device import Device

_OURS = 10_000
_PAHO = 15_000
_BRIDGED = 3_000
_CALLS = 4_000
_CALLERS = 8
_ROUNDS = 5

_LOOK_S = 0.1
_SAVE_EACH_CHANGE = {"autosave_on_changes": "true", "autosave_interval": "1"}


def main() -> None:
    """Print the three rates, and the ratios of each round."""
    with TemporaryDirectory(dir="/var/tmp") as folder, ExitStack() as stack:  # on a disk: /tmp may be memory
        place = Path(folder)
        broker = stack.enter_context(Broker(place / "broker"))
        sender = stack.enter_context(_pair(place, broker))
        near = stack.enter_context(Broker(place / "near", settings=_SAVE_EACH_CHANGE))
        far = stack.enter_context(Broker(place / "far", settings=_SAVE_EACH_CHANGE))
        _bridge(near, far, place / "near" / "mosquitto.conf")
        rounds = [
            (
                _ours(sender),
                *_by_callers(sender),
                _paho(broker, broker, _PAHO, number),
                _paho(near, far, _BRIDGED, number),
            )
            for number in range(_ROUNDS)
        ]
    ours, called, written, raw, bridged = ([each[place] for each in rounds] for place in range(5))
    print(f"messages of {SIZE} bytes a second, unbatched, medians of {_ROUNDS} rounds")
    print(f"agent to agent, durable and acknowledged end to end {median(ours):>20,.0f}")
    print(f"the same, by {_CALLERS} callers of the local API at once   {median(called):>20,.0f}")
    print("  (each waits for its answer, with covey.client; paho has up to 1,000 publishes under way)")
    print(f"  bytes that the sending agent writes for each      {median(written):>20,.0f}")
    print(f"paho to paho, neither end durable                   {median(raw):>20,.0f}")
    print(_ratio("  agents to paho", ours, raw))
    print(_ratio("  callers to paho", called, raw))
    print(f"paho over two bridged brokers that save each change {median(bridged):>20,.0f}")
    print(_ratio("  agents to bridge", ours, bridged))
    print(_ratio("  callers to bridge", called, bridged))


def _ratio(what: str, ours: list[float], theirs: list[float]) -> str:
    ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True))
    return f"{what}, median of pairs ({ratios[0]:.2f} to {ratios[-1]:.2f}) {median(ratios):>20.2f}"


@contextmanager
def _pair(place: Path, broker: Broker) -> Iterator[Device]:
    """Make two members of one group; the second runs. Yield the first."""
    devices = [Device(place, name) for name in ("sender", "recipient")]
    for device in devices:
        device.set_up(broker)
    sender, recipient = devices
    sender.ok("group", "create")
    sender.ok("config", "set", "api.socket", "api.sock")
    sender.start("run", "--no-sensors")
    try:
        recipient.ok("join", "-", feed=sender.ok("invite", "--no-wait"))
        sender.end()
        recipient.start("run", "--no-sensors")
        yield sender
    finally:
        sender.end()
        recipient.end()


def _ours(sender: Device) -> float:
    return _OURS / go([start("bench.messages.small_sender", str(sender.state), str(_OURS))])


def _by_callers(sender: Device) -> tuple[float, float]:
    """Return messages a second, and the bytes that the agent has written for each."""
    socket = sender.state / "api.sock"
    sender.start("run", "--no-sensors")
    try:
        while not (socket.is_socket() and sender.json("status")["relay"]["state"] == "up"):
            time.sleep(_LOOK_S)
        callers = start("bench.messages.small_callers", str(socket), str(_CALLS), str(_CALLERS))
        before = _written(sender.pid)
        seconds = go([callers])
        return _CALLS / seconds, (_written(sender.pid) - before) / _CALLS
    finally:
        sender.end()


def _written(process: int) -> int:
    """Return the bytes that a process has sent to the disk, where its folder lies on one."""
    lines = Path(f"/proc/{process}/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def _paho(near: Broker, far: Broker, count: int, number: int) -> float:
    """Publish to one broker and subscribe at the other, where they are two by a session that lasts."""
    names = [f"{number:02}a{'0' * 29}", f"{number:02}b{'0' * 29}"]
    passwords = near.add_device(names[0]), far.add_device(names[1])
    topic, bridged = f"covey/1/in/{names[1]}", near is not far
    with TemporaryDirectory() as folder:
        words = [str(far.port), names[1], topic, str(count), f"{folder}/sink", "3600" if bridged else "0"]
        subscriber = start("bench.messages.raw_paho", "subscribe", *words)
        feed(subscriber, passwords[1])
        await_ready(subscriber)
        publisher = start("bench.messages.raw_paho", "publish", str(near.port), names[0], topic, str(count), str(SIZE))
        feed(publisher, passwords[0])
        return count / go([publisher, subscriber], ready=1)


def _bridge(near: Broker, far: Broker, configuration: Path) -> None:
    """Have one broker carry every inbox's messages to the other, over a session that lasts."""
    name = f"{'b' * 32}"
    password = far.add_device(name)
    lines = [
        "connection far",
        f"address 127.0.0.1:{far.port}",
        f"remote_username {name}",
        f"remote_password {password}",
        f"remote_clientid {name}",
        "bridge_protocol_version mqttv50",
        "bridge_outgoing_retain false",
        "notifications false",
        "cleansession false",
        "restart_timeout 1",
        "topic covey/1/in/+ out 1",
    ]
    near.stop()
    configuration.write_text("\n".join([configuration.read_text(), *lines, ""]))
    near.start()


if __name__ == "__main__":
    main()
