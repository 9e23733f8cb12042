// Shapes of structures, spelled as the document's CDDL does, and extension maps (section 34).
'use strict'
const { Refused, decode, encode, limit, malformed } = require('./cbor.js')

const UINT63 = 9223372036854775807n
const SEQUENCE = 2 ** 40 - 1
const MAXIMUM_EXTENSION_BYTES = 1024

const isInteger = value => typeof value === 'number' || typeof value === 'bigint'
const integer = (least, most) => value => {
  if (!isInteger(value) || value < least || value > most) throw malformed('integer')
  return value
}
const uint63 = integer(0, UINT63)
const sequence = integer(0, SEQUENCE)
const place = integer(1, SEQUENCE)
const boolean = value => {
  if (typeof value !== 'boolean') throw malformed('truth value')
  return value
}
const exactly = size => value => {
  if (!Buffer.isBuffer(value) || value.length !== size) throw malformed(`not ${size} bytes`)
  return value
}
const octets = most => value => {
  if (!Buffer.isBuffer(value)) throw malformed('no bytes')
  if (value.length > most) throw limit('bytes')
  return value
}
const text = most => value => {
  if (typeof value !== 'string') throw malformed('no text')
  if (Buffer.byteLength(value) > most) throw limit('text')
  return value
}
const list = (item, most = Infinity, least = 0) => value => {
  if (!Array.isArray(value) || value.length < least) throw malformed('list')
  if (value.length > most) throw limit('list')
  return value.map(item)
}
const orNull = shape => value => (value === null ? null : shape(value))
/** An array of just these fields, without an extension map */
const tuple = (...shapes) => value => {
  if (!Array.isArray(value) || value.length !== shapes.length) throw malformed('fields')
  return shapes.map((shape, n) => shape(value[n]))
}
/** `compare` of neighbours below zero throughout: ascending and distinct */
const ascending = (items, compare) => {
  for (let n = 1; n < items.length; n++) if (compare(items[n - 1], items[n]) >= 0) throw malformed('order')
  return items
}
const ascendingBytes = (item, most, least) => value => ascending(list(item, most, least)(value), Buffer.compare)
const key = exactly(32)
const hash = exactly(32)
const incarnation = exactly(8)
const signature = exactly(64)

/** Ranges that ascend and do not touch; each begins at 1 or later */
const ranges = (most, least = 0) => value => {
  const found = list(tuple(place, place), most, least)(value)
  found.forEach(([first, last], n) => {
    if (first > last || (n && first <= found[n - 1][1] + 1)) throw malformed('ranges')
  })
  return found
}

function checkExtensions(map, { known = [], bound = MAXIMUM_EXTENSION_BYTES } = {}) {
  if (!map) return new Map()
  if (map.size === 0) throw malformed('empty extension map')
  for (const number of map.keys()) integer(1, 65535)(number)
  if (encode(map).length > bound) throw limit('extension map')
  for (const number of map.keys()) if (number % 2 === 0 && !known.includes(number)) throw new Refused('unsupported')
  return map
}

/** The fields of a structure, and its extension map: `shapes`, then up to `optional` further ones, then perhaps the map, which is judged first. */
function structure(value, shapes, { optional = [], ...extension } = {}) {
  if (!Array.isArray(value)) throw malformed('no structure')
  const mapped = value.at(-1) instanceof Map
  const extensions = extension.later ? (mapped ? value.at(-1) : null) : checkExtensions(mapped ? value.at(-1) : null, extension)
  const fields = mapped ? value.slice(0, -1) : value
  if (fields.length < shapes.length || fields.length > shapes.length + optional.length) throw malformed('number of fields')
  const all = [...shapes, ...optional]
  return [fields.map((field, n) => all[n](field)), extensions]
}

/** The one item of a structure of at most `bound` bytes, its extension map not counted */
function read(bytes, bound) {
  let value
  try {
    value = decode(bytes, bound + MAXIMUM_EXTENSION_BYTES)
  } catch (error) {
    throw bytes.length > bound ? limit('bytes') : error // there is no map that could be left out of account
  }
  const mapped = Array.isArray(value) && value.at(-1) instanceof Map ? encode(value.at(-1)).length : 0
  if (bytes.length - mapped > bound) throw limit('bytes')
  return value
}

module.exports = {
  SEQUENCE, UINT63, ascending, ascendingBytes, boolean, checkExtensions, exactly, hash, incarnation, integer, isInteger, key, list, octets,
  orNull, place, ranges, read, sequence, signature, structure, text, tuple, uint63,
}
