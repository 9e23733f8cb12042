"""One device: its folder, its state, its keys and its settings. Everything else in `app` works on a `Device`.

Read `device.py` first: it finds the state folder, opens the state and builds the node. `creating.py` makes a new
device; `settings.py` and `live_settings.py` read and change settings, the second in a running agent; `pins.py` has the
operators that the owner approved; `relay_access.py` and `addresses.py` say how the device signs in to its relays and
where its agent answers. `quarantine.py` and `verifying.py` serve people: quarantined messages, and a damaged state
file. `calls.py` carries calls from other threads to the loop, and `shared_commits.py` joins their writes. `carriage.py`
remembers what the relays accept, `known_labels.py` other devices' labels, `known_time.py` a time that has passed.
`storage_writes.py` counts what the agent writes to its disk.
"""
