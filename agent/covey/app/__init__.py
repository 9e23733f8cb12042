"""What Covey does for its users, by subject. Joins core and adapters; prints nothing.

A subject's folder holds everything about it: operations of people (plain functions on a `Device`), recurring work of
the agent (roles, `loop.runtime.AgentRole`), its reports, and the types of its JSON (`documents.py`).

Each subject imports only subjects before it in this list (`tests/meta/test_imports.py` proves it): `device` → `loop` →
`relays` → `groups` → `history` → `telemetry` → `content` → `orders` → `boards` → `pairing` → `checks` → `fleet` → `api`
→ `agent`. All of them may use `documents.py` and `openapi.py` (JSON and its description), `shipped_files.py` and
`wording.py`.
"""
