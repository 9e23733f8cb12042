"""MQTT 5: the only importer of paho-mqtt. Relays, the sensors that read topics, doors and `broker check` share it.

1. paho does the protocol, and nothing else: no queue, no reconnection, no resending. Those are ours.
2. One connection is one object; only the inbox's topics are carried over to the next.
3. A server's data ends at most its own connection.

Read `settings.py` (a broker's address, our account, and the pause between connections), `states.py` (the transition
table), `posted.py` (what threads share), `connection.py` (one connection), then `relay.py` (one after another).
"""
