"""What a vault and its tables hold, said by another implementation: written from `docs/protocol/` alone.

It shares no code with the product, and the product none with it (`tests/meta/test_imports.py`): where both agree, a
second reading of the document does. It only reads, and it refuses what the document tells a reader to refuse.

In this order:
    primitives  CBOR, hashes, signatures (sections 1 and 2)
    messages    what devices sign: messages, losses (5, 7), and the readings of a batch (`telemetry`, 11)
    members     who was in a group: group manifests, from the file of a history (9, 14, 21)
    vault       nodes, manifests, ranges, segments (13, 14)
    tables      rows of Parquet and Delta tables (33)
    audit       the questions: which readings the vault holds, and whether the tables hold them, once

`python -m tests.outside.audit --help` asks them of any vault. It needs pyarrow, DuckDB and, for Delta, deltalake.
What it leaves to others: whether a manifest's issuer was allowed its change (section 9, *Modes and votes*), and which
of several concurrent manifests hold (*Rivals*): whoever any of them lists counts as a member.
"""
