"""Message rows of the source to rows of `readings`: plain Arrow, a batch at a time, without a loop over readings.

A message row has its readings in list columns (`schema.MESSAGE_SCHEMA`). Its values stand in index order: numbers
(decimals, truth values as 0 and 1, floats), then texts, then data. What is the same for many rows becomes a dictionary
column: Parquet stores it so, and no string is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.task.columns import COLUMNS, READINGS, TIMESTAMP

Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_REPEATS = pa.string()
"""Texts repeat from row to row; `text` and `data` do not."""
_OWN = ("text",)
_MAY_BE_NULL = frozenset(
    {"value", "whole", "flag", "text", "data", "alarm", "clock_offset", "collector", "vault", "group"}
)
_DICTIONARY = pa.dictionary(pa.int32(), _REPEATS)

STORED = pa.schema(
    [
        pa.field(
            field.name,
            _DICTIONARY if field.type == _REPEATS and field.name not in _OWN else field.type,
            nullable=field.name in _MAY_BE_NULL,
        )
        for field in READINGS
    ]
)
"""`READINGS` in memory. Parquet files hold plain strings."""


def readings_of(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return a row of `STORED` for each reading of telemetry rows, in their order."""
    counts = _lengths(messages["times"])
    total = int(counts.sum())
    index = np.arange(total, dtype=np.int32) - np.repeat((np.cumsum(counts) - counts).astype(np.int32), counts)
    made = _values(messages, counts, index)
    made |= {"index": pa.array(index), "time": pc.list_flatten(messages["times"]).cast(TIMESTAMP)}
    place = np.repeat(_starts(messages["names"]), counts) + pc.list_flatten(messages["series"]).to_numpy()
    for name, of in (("name", "names"), ("unit", "units")):
        made[name] = _chosen(pc.list_flatten(messages[of]), place)
    made["device"] = _repeated(pc.utf8_slice_codeunits(messages["author"], 0, 8), counts)
    for column in COLUMNS:
        if column.message:
            made[column.name] = _repeated(messages[column.name], counts)
    return pa.RecordBatch.from_arrays([made[field.name] for field in STORED], schema=STORED)


def stored(rows: pa.Table, names: Sequence[str] = STORED.names) -> list[pa.RecordBatch]:
    """Return rows of a file of readings as rows of `STORED`, or of some columns of it.

    Files that the Delta library wrote have views of strings, which Arrow casts to no dictionary.
    """
    schema = pa.schema([STORED.field(name) for name in names])
    chosen = rows.select(schema.names)
    plain = pa.schema([pa.field(each.name, _PLAIN.get(each.type, each.type)) for each in chosen.schema])
    batches: list[pa.RecordBatch] = chosen.cast(plain).cast(schema).combine_chunks().to_batches()
    return batches


_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _values(messages: pa.RecordBatch, counts: Whole, index: npt.NDArray[np.int32]) -> dict[str, pa.Array]:
    numbers, texts = _lengths(messages["values"]), _lengths(messages["texts"])
    begin, end = _plain(messages["booleans_from"]), _plain(messages["booleans_until"])
    wholes = _wholes(messages["wholes"], counts, index)
    if (numbers == counts).all() and (begin == end).all():  # nothing but numbers
        absent = {name: pa.nulls(len(index), STORED.field(name).type) for name in ("flag", "text", "data")}
        return absent | {"value": pc.list_flatten(messages["values"]), "whole": wholes}
    numbers, texts, begin, end = (np.repeat(each, counts) for each in (numbers, texts, begin, end))
    is_number, is_text = index < numbers, (index >= numbers) & (index < numbers + texts)
    truth = (index >= begin) & (index < end)
    number = np.zeros(len(index))
    number[is_number] = pc.list_flatten(messages["values"]).to_numpy(zero_copy_only=False)
    return {
        "value": pa.array(number, pa.float64(), mask=~is_number | truth),
        "flag": pa.array(number != 0, pa.bool_(), mask=~truth),
        "whole": wholes,
        "text": _spread(pc.list_flatten(messages["texts"]), is_text),
        "data": _spread(pc.list_flatten(messages["data"]), index >= numbers + texts),
    }


def _wholes(lists: pa.ListArray, counts: Whole, index: npt.NDArray[np.int32]) -> pa.Array:
    """Return the numbers that no double holds; a list is empty, or has a 0 for each of the others."""
    flat = pc.list_flatten(lists).to_numpy()
    if not len(flat):
        return pa.nulls(len(index), pa.int64())
    whole = np.zeros(len(index), np.int64)
    whole[index < np.repeat(_lengths(lists), counts)] = flat
    return pa.array(whole, pa.int64(), mask=whole == 0)


def _spread(values: pa.Array, where: Mask) -> pa.Array:
    if not len(values):
        return pa.nulls(len(where), values.type)
    return values.take(pa.array(np.cumsum(where) - 1, pa.int64(), mask=~where))


def _repeated(values: pa.Array, counts: Whole) -> pa.Array:
    """Return each value so many times; texts as a dictionary."""
    if values.type != _REPEATS:
        if values.null_count:
            return values.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        plain = values.cast(pa.int64()) if values.type == TIMESTAMP else values
        return pa.array(np.repeat(plain.to_numpy(), counts)).cast(values.type)
    if values.null_count == len(values):
        return pa.nulls(int(counts.sum()), _DICTIONARY)
    encoded = values.dictionary_encode()
    if values.null_count:
        indices = encoded.indices.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
    elif len(encoded.dictionary) == 1:
        indices = pa.array(np.zeros(int(counts.sum()), np.int32))
    else:
        indices = pa.array(np.repeat(encoded.indices.to_numpy(), counts))
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary)


def _chosen(texts: pa.Array, places: Whole) -> pa.DictionaryArray:
    """Return the texts at some places, as a dictionary."""
    encoded = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(pa.array(encoded.indices.to_numpy()[places]), encoded.dictionary)


def _lengths(lists: pa.ListArray) -> Whole:
    return _plain(pc.list_value_length(lists))


def _starts(lists: pa.ListArray) -> Whole:
    lengths = _lengths(lists)
    starts: Whole = np.cumsum(lengths) - lengths
    return starts


def _plain(numbers: pa.Array) -> Whole:
    plain: Whole = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    return plain
