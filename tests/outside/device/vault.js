// Section 13: the objects of a vault that a node writes: segments, ranges of older ones, and its manifest.
'use strict'
const { Refused, decode, encode, malformed } = require('./cbor.js')
const { hexOf } = require('./manifests.js')
const { blake2b, sign, verify, xchacha, xchachaOpen } = require('./primitives.js')
const { exactly, hash, incarnation, integer, key, list, octets, orNull, signature, structure, text, tuple, uint63 } = require('./shapes.js')

const MAXIMUM_SEGMENT_BYTES = 33554432
const MAXIMUM_MANIFEST_BYTES = 8388608
const MAXIMUM_VAULT_ITEMS = 880000
const MAXIMUM_RECORDS = 20000
const MAXIMUM_SEGMENTS = 10000
const MAGIC = { segment: 'HXSEG', manifest: 'HXMAN', range: 'HXRNG' }
const HEADER = 14
const NONCE = 24
const [MERGED, THINNED] = ['00'.repeat(8), 'ff'.repeat(8)]
const MERGED_COVERS = 1000

const magicOf = kind => Buffer.from(MAGIC[kind] + '\x01', 'latin1')
const keyId = vaultKey => blake2b(vaultKey, 'covey/1 vkey id', 8)

/** Section 14, `vault.key`: what shows damage. */
function checkOf(file) {
  const octetsOf = spelled => spelled == null ? null : Buffer.from(spelled, 'hex')
  const epochs = file.epochs && Object.keys(file.epochs).sort().map(group => [octetsOf(group), octetsOf(file.epochs[group])])
  const content = [
    octetsOf(file.vault_id), file.keys.map(each => [octetsOf(each.key), each.since_us]), epochs ?? null,
    (file.readers ?? []).map(each => [octetsOf(each.public), octetsOf(each.device)]), octetsOf(file.reader_secret),
  ]
  return blake2b(encode(content), 'covey/1 vkeyfile', 8)
}

const nodeId = signing => blake2b(signing, 'covey/1 node', 16)
const digits = number => BigInt(number).toString(16).padStart(16, '0')
const hashes = { segment: 'covey/1 segment', range: 'covey/1 range' }
const hashOf = (kind, object) => blake2b(object, hashes[kind])

/** `binding` is an array: what the object is bound to, its domain first. */
function sealObject(kind, vaultKey, nonce, binding, plain) {
  const header = Buffer.concat([magicOf(kind), keyId(vaultKey)])
  return Buffer.concat([header, nonce, xchacha(plain, nonce, vaultKey, Buffer.concat([header, encode(binding)]))])
}

function openObject(kind, vaultKey, binding, object) {
  if (object.length < HEADER + NONCE || !object.subarray(0, 6).equals(magicOf(kind))) throw malformed('magic')
  const header = object.subarray(0, HEADER)
  const nonce = object.subarray(HEADER, HEADER + NONCE)
  return xchachaOpen(object.subarray(HEADER + NONCE), nonce, vaultKey, Buffer.concat([header, encode(binding)]))
}

const spanOf = (first, last, digest) => `${digits(first)}-${digits(last)}-${hexOf(digest.subarray(0, 8))}`
const objectsOf = vault => `vaults/${hexOf(vault)}/objects`
const manifestPath = (vault, node) => `${objectsOf(vault)}/manifests/${hexOf(node)}.hxman`
const segmentPath = (vault, node, number, life) => `${objectsOf(vault)}/segments/${hexOf(node)}/${digits(number)}-${hexOf(life)}.hxseg`
const rangePath = (vault, node, { first, last, hash: digest }) => `${objectsOf(vault)}/ranges/${hexOf(node)}/${spanOf(first, last, digest)}.hxrange`
const keysPath = (vault, node) => `${objectsOf(vault)}/keys/${hexOf(node)}.hxkey`

// Segments

const bindSegment = (vault, node, number, life) => ['covey/1 segment', vault, node, number, life]

/** `records`: [received at, message] */
function writeSegment({ vault, key: vaultKey }, node, { number, incarnation: life, nonce, createdAt, records }) {
  const object = sealObject('segment', vaultKey, nonce, bindSegment(vault, node, number, life), encode([1, createdAt, records]))
  const entry = { number, incarnation: life, hash: hashOf('segment', object), size: object.length, createdAt, records: records.length, covers: 1 }
  return { object, entry }
}

function readSegment({ vault, key: vaultKey }, node, { number, incarnation: life, hash: digest, size, records }, object) {
  const listed = object.length === size && hashOf('segment', object).equals(digest)
  if (!listed) throw new Refused('decryption')
  const plain = openObject('segment', vaultKey, bindSegment(vault, node, number, life), object)
  const value = decode(plain, MAXIMUM_SEGMENT_BYTES)
  const [, , found] = tuple(integer(1, 1), uint63, list(tuple(uint63, octets(Infinity)), MAXIMUM_RECORDS))(value)
  if (found.length !== records) throw malformed('records')
  return found
}

// Entries, ranges and manifests

const entryFields = ({ number, incarnation: life, hash: digest, size, createdAt, records, covers }) =>
  [number, life, digest, size, createdAt, records, covers]

function readEntry(value) {
  const [number, life, digest, size, createdAt, records, covers] = tuple(uint63, incarnation, hash, uint63, uint63, uint63, uint63)(value)
  const most = { [MERGED]: MERGED_COVERS, [THINNED]: Infinity }[hexOf(life)] ?? 1
  if (size > MAXIMUM_SEGMENT_BYTES || covers < 1 || covers > most || covers > number) throw malformed('entry')
  return { number, incarnation: life, hash: digest, size, createdAt, records, covers }
}

/** Segments without a gap, from `first` on; gives the number after the last one (rule 5) */
function follow(entries, first) {
  for (const { number, covers } of entries) {
    if (number - covers + 1 !== first) throw malformed('segment numbers')
    first = number + 1
  }
  return first
}

const rangeFields = ({ first, last, hash: digest, size }) => [first, last, digest, size]
const readRangeFields = value => {
  const [first, last, digest, size] = tuple(uint63, uint63, hash, uint63)(value)
  return { first, last, hash: digest, size }
}

function writeRange({ vault, key: vaultKey }, node, nonce, entries) {
  const first = entries[0].number - entries[0].covers + 1
  const last = entries.at(-1).number
  const object = sealObject('range', vaultKey, nonce, ['covey/1 range', vault, node, first, last], encode(entries.map(entryFields)))
  return { object, range: { first, last, hash: hashOf('range', object), size: object.length } }
}

function readRange({ vault, key: vaultKey }, node, { first, last, hash: digest, size }, object) {
  const named = object.length === size && hashOf('range', object).equals(digest)
  if (!named) throw new Refused('decryption')
  const plain = openObject('range', vaultKey, ['covey/1 range', vault, node, first, last], object)
  const entries = list(readEntry, MAXIMUM_SEGMENTS, 1)(decode(plain, MAXIMUM_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS))
  if (follow(entries, first) !== last + 1) throw malformed('range')
  return entries
}

function capabilities(value) {
  if (!(value instanceof Map) || value.size !== 2 || value.get('format_version') !== 0) throw malformed('capabilities')
  list(text(32), 8)(value.get('supports'))
}

const readTombstone = tuple(uint63, uint63, hash, uint63, uint63)
const readErasure = tuple(orNull(key), uint63, uint63, orNull(hash), uint63)

function writeVaultManifest({ vault, key: vaultKey }, identity, { nonce, sequence, prev, createdAt, ranges, segments }) {
  const node = nodeId(identity.key)
  const document = encode([
    1, vault, node, identity.key, identity.incarnation, sequence, prev, createdAt, ranges.map(rangeFields), segments.map(entryFields), [],
    new Map([['supports', ['segments']], ['format_version', 0]]), [],
  ])
  const plain = encode([sign(identity.signing, 'covey/1 vault manifest', document), document])
  return { object: sealObject('manifest', vaultKey, nonce, ['covey/1 vault manifest', vault, node], plain), hash: documentHash(document) }
}

const documentHash = document => blake2b(document, 'covey/1 vm hash')

/** *Reading a manifest*, 1 to 5; `floor` is the highest `manifest-seq` that this reader has seen. */
function readVaultManifest({ vault, key: vaultKey }, node, floor, object) {
  const plain = openObject('manifest', vaultKey, ['covey/1 vault manifest', vault, node], object) // 1
  const [mark, document] = tuple(signature, octets(Infinity))(decode(plain, MAXIMUM_MANIFEST_BYTES))
  const value = decode(document, MAXIMUM_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS)
  const shapes = [
    integer(1, 1), exactly(16), exactly(16), key, incarnation, uint63, hash, uint63, list(readRangeFields, 100000), list(readEntry, MAXIMUM_SEGMENTS),
    list(readTombstone, 1000), capabilities, list(readErasure, 1000),
  ]
  const [[, itsVault, itsNode, signing, life, sequence, prev, createdAt, ranges, segments, tombstones]] = structure(value, shapes)
  if (!itsVault.equals(vault) || !itsNode.equals(node) || !nodeId(signing).equals(node)) throw new Refused('wrong_vault') // 2, 3
  verify(signing, 'covey/1 vault manifest', document, mark)
  if (sequence < 1 || sequence < floor) throw new Refused('rollback') // 4
  let next = 1
  for (const { first, last } of ranges) { // 5
    if (first !== next || last < first) throw malformed('range')
    next = last + 1
  }
  next = follow(segments, next)
  if (tombstones.some(([first, last]) => first < 1 || last < first || last >= next)) throw malformed('tombstone')
  return { incarnation: life, sequence, prev, createdAt, ranges, segments, hash: documentHash(document) }
}

module.exports = {
  checkOf, keyId, keysPath, manifestPath, nodeId, rangePath, readRange, readSegment, readVaultManifest, segmentPath, writeRange, writeSegment, writeVaultManifest,
}
