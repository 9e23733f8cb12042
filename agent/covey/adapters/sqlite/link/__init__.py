"""Tables of links: what waits for recipients, what came over each link, and what waits here to be landed or read.

Read `outbox.py` with `losses.py` and `incarnations.py`, then `received.py` with `imprints.py`. `outbox_growth.py` says
how far the outbox may grow on a disk that fills up.
"""
