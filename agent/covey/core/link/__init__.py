"""One author and one recipient: nothing is lost between them, and nothing taken twice.

Rules: a message is forgotten when its recipient's acknowledgement covers it; numbers on the wire are contiguous in each
incarnation, places in a queue are counted on through all of them (`incarnations.py`).

Sending: `send_queue.py` (into the store), `windows.py` and `send_window.py` (what is in flight), `sealer.py`
(envelopes), `sender.py` (out of the store). Receiving: `receiver.py`. Both: `link_keys.py`. What outlives a failed
commit: `state.py`, and what waits for one: `after_commit.py`. `queued.py` has the classes and lanes of what
waits.
"""
