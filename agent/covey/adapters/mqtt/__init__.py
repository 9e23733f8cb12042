"""MQTT 5: the only importer of paho-mqtt. Relays, the sensors that read topics, doors and `broker check` share it.

1. paho does the protocol, and nothing else: no queue, no reconnection, no resending. Those are ours.
2. One connection is one object; nothing is carried over to the next but the inbox's topics.
3. What a server sends ends at most the connection that brought it.

Read `settings.py` (where a broker is, who we are there, and the pause between connections), `states.py` (the transition
table),
`connection.py` (one connection), then `relay.py` (one after another, for good).
"""
