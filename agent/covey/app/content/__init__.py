"""Files of a group: offering one, fetching one, keeping copies.

Read `content.py` first. `file_offers.py` lists what a group's history offers, `patches.py` sends small differences
instead of whole files, `nearby.py` and `nearby_files.py` fetch from the local network or an object store before asking
members. `api.py` and `api_operations.py` serve files over the local API, `status.py` sums up what is here.
`patched_fetch.py` applies a patch in a process of its own; `documents.py` has the JSON.
"""
