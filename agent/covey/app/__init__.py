"""The application layer: joins core and adapters for purposes that a user would name. It prints nothing.

Read `device.py` (find and open a state), then `documents.py` and `queries.py` (how a device is, as one typed snapshot),
`device_api.py` with its two implementations `answering_agent.py` and `opened_device.py`, `operations/` (what people do
with a device), `relay_loop.py` and `runtime.py` (the loop), `agent_roles.py` with `roles/`, `daemon.py` (the agent).
`api.py` serves `DeviceApi` on a socket; `api_operations.py` says what it takes and answers, `openapi.py` describes it.

1. Imports go `cli → app → adapters → ports → core`, and no two files import each other (`tests/meta`).
2. What a person must see or decide comes out as a value, or goes through a Protocol that `cli` implements.
3. Whatever shows how a device is draws `documents.Status`; nobody else asks the store for it.
"""
