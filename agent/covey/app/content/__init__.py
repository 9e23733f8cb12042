"""Files of a group: offering one, fetching one, keeping copies.

Read `content.py` first. `file_offers.py` lists what a group's history offers, `patches.py` sends small differences
instead of whole files, `nearby_files.py` fetches from the places of `nearby.py` (local network, object store) before
asking members. `api.py` and `api_operations.py` serve files over the local API, `status.py` sums up what is here.
`patched_fetch.py` applies a patch in a process of its own; `documents.py` has the JSON.
"""
