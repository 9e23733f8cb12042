"""A task's work to rows: what an executor does. Needs no Spark.

1. A segment that is not there, does not open, or is not the one that the signed manifest lists is passed over: one
   quarantine row names the positions, and `repairs` has them read when they can be.
2. Of a thinned segment the numbers that were erased come as records of loss do, with its last position.
3. Small segments fill Arrow batches together: making one takes milliseconds, whatever its size.
4. A store that is not there is no reason to pass anything over: that raises, and Spark tries again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from covey.core.ids import NodeId
from covey.core.telemetry.decoding import KnownLayouts
from covey.core.vault.reading import VaultReader
from covey.core.vault.segments import open_whole
from covey.errors import MissingObjectError, RemoteError, StorageError, UnknownVaultKeyError
from covey_ingest.task.rows import Origin, Verify, erased_rows, quarantine_rows, record_rows, repaired_rows, rows_from
from covey_ingest.vault.offsets import Work
from covey_ingest.vault.pruning import EVERYTHING, Selection


def work_rows(
    reader: VaultReader, work: Work, verify: Verify, wanted: Selection = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """Yield a task's rows.

    Raises:
        StorageError: rule 4.
    """
    vault = reader.vault_id.hex()
    if work.trouble:
        code, _, mark = work.trouble.partition(" ")
        detail = f"the node's vault manifest or a range of it ({mark}) was not followed; its last good position is kept"
        if code == UnknownVaultKeyError.code:
            detail = f"{UnknownVaultKeyError()}; fix: a fresh copy of the key file, or 'covey vault new-reader'"
        yield quarantine_rows(wanted, Origin(work.node, None, None, vault), code, detail)
    passed_over = False
    rows, known = rows_from(Origin(work.node, work.collector, None, vault), wanted), KnownLayouts()
    for planned in work.entries:
        origin = Origin(work.node, work.collector, planned.number, vault)
        span = max(work.first, planned.first), min(work.last, planned.number)
        try:
            for entry, content in reader.contents(work.node, planned):
                if content is None:
                    raise MissingObjectError("the vault lacks a segment that its manifest lists")
                key = reader.key_for(work.node, content)
                opened = open_whole(key, NodeId(bytes.fromhex(work.node)), entry, content)
                records = [record for part in opened.parts for record in part.records]
                yield from record_rows(rows, known, records, verify, span, wanted)
                if opened.erased and span[0] <= entry.number <= span[1]:
                    yield from rows.rest()
                    yield from erased_rows(origin, opened, entry.number, wanted)
        except (RemoteError, StorageError) as error:
            if isinstance(error, MissingObjectError | StorageError) and not reader.nodes():
                raise StorageError("the vault became empty", hint="check that its disk is mounted") from error
            passed_over = True
            yield from rows.rest()
            yield quarantine_rows(wanted, origin, error.code, str(error), span)
    yield from rows.rest()
    if work.reread and not passed_over:
        origin = Origin(work.node, work.collector, work.last, vault)
        yield repaired_rows(wanted, origin, (work.first, work.last))
