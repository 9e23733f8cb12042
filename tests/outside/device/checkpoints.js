// Section 28: the state that a history comes to, whose word it is, and what names the history behind it.
'use strict'
const { Refused, decode, encode, malformed } = require('./cbor.js')
const { History, KINDS, isBoard, readOperation } = require('./history.js')
const { MODES, hexOf } = require('./manifests.js')
const { Authority, COMMAND, SETTING } = require('./orders.js')
const { blake2b } = require('./primitives.js')
const { boolean, hash, incarnation, integer, key, list, octets, read, sequence, structure, tuple } = require('./shapes.js')

const PART_BYTES = 60000
const MAXIMUM_PARTS = 16
const GRAPH_PART = 64
const GRAPH_PARTS_AT_ONCE = 16
const MAXIMUM_STATE_BYTES = PART_BYTES * MAXIMUM_PARTS
const BY_PLACE = new Set([KINDS.MERGE, KINDS.NOTE, KINDS.PROFILE, KINDS.SESSION, KINDS.CHECKPOINT])
const bytesOf = hex => Buffer.from(hex, 'hex')
const ids = set => [...set].sort().map(bytesOf)

/** All that an operation follows, as a history of its own */
function covered(history, operation) {
  const part = new History(history.groupId, history.graph)
  for (const each of history.order) if (history.follows(operation, each)) part.take(each, each.parents.map(id => part.held.get(id)))
  return part
}

/** Rules 1 to 4: {bytes, operators, orders}. `pins` are {operators, threshold}; `members` of the checkpoint's manifest. */
function stateOf(history, covers, pins, members) {
  const part = covered(history, covers)
  const authority = new Authority(part, pins.operators, pins.threshold, members)
  const operators = authority.operators()
  const profile = part.inOrder().filter(each => each.kind === KINDS.PROFILE).at(-1)
  const replaced = authority.replaced()
  const kept = keptSettings(part, authority.counting(), replaced)
  const authors = [...new Set([...kept.values()].flat().map(each => each.author))].sort()
  const entry = each => {
    const [selector, , value, sealed] = each.fields
    return [bytesOf(each.id), authors.indexOf(each.author), each.madeAt, selector, value, sealed !== null]
  }
  const bytes = encode([
    bytesOf(covers.id), ids(pins.operators), pins.threshold, ids(operators).map(id => [id, labelOf(authority, hexOf(id))]),
    profile ? [bytesOf(profile.id), profile.body] : null, authors.map(bytesOf),
    [...kept].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, orders]) => [name, orders.map(entry)]), graphOf(part, replaced),
  ])
  return { bytes, operators }
}

/** Of each key what counts and is not replaced, the last one first, of each selector one, up to one for every member */
function keptSettings(part, counting, replaced) {
  const kept = new Map()
  const selectors = new Map()
  for (const each of part.inOrder().reverse()) {
    if (each.kind !== SETTING || !counting.has(each) || replaced.has(each)) continue
    const [selector, name] = each.fields
    const seen = selectors.get(name) ?? new Set()
    const spelled = hexOf(encode(selector))
    if (seen.has('all') || seen.has(spelled)) continue
    selectors.set(name, seen.add(selector[0] === 0 ? 'all' : spelled))
    kept.set(name, [...(kept.get(name) ?? []), each])
  }
  return kept
}

/** What the last addition that counts calls an operator; one that is pinned and never added has no label */
function labelOf(authority, id) {
  const about = authority.changes.filter(each => each.fields[2] && hexOf(each.fields[0]) === id && authority.counts(each))
  const order = about.sort((one, other) => one.height - other.height || (one.id < other.id ? -1 : 1))
  return order.at(-1)?.fields[1] ?? ''
}

// Graphs (*Newcomers*)

/** `judged` is false where only the place of an operation is of use, once a checkpoint covers it. */
function remainsOf(part, replaced) {
  const order = part.inOrder()
  const checkpoints = new Set(order.filter(each => each.kind === KINDS.CHECKPOINT).map(each => each.id))
  const settled = each => replaced.has(each) || (each.kind === COMMAND && each.fields.length <= 6)
  const ofCheckpoint = each => each.kind === KINDS.APPROVAL && checkpoints.has(hexOf(each.fields[0]))
  return order.map(each => {
    const judged = !(BY_PLACE.has(each.kind) || settled(each) || ofCheckpoint(each))
    const { author, incarnation: life, number, height, manifest, kind, raw, parents } = each
    return [bytesOf(each.id), bytesOf(author), bytesOf(life), number, height, bytesOf(manifest), kind, judged, raw.length, parents.map(bytesOf), targetOf(each)]
  })
}

function targetOf({ kind, fields }) {
  if (kind === SETTING) return encode([fields[0], fields[1]])
  return kind === COMMAND ? encode([fields[0], null]) : Buffer.alloc(0)
}

const partHash = remains => blake2b(encode(remains), 'covey/1 gr part')
const graphHash = hashes => blake2b(hashes, 'covey/1 graph')
function inParts(remains) {
  const parts = []
  for (let at = 0; at < remains.length; at += GRAPH_PART) parts.push(remains.slice(at, at + GRAPH_PART))
  return parts
}
const graphOf = (part, replaced) => graphHash(Buffer.concat(inParts(remainsOf(part, replaced)).map(partHash)))

const remainsShape = tuple(
  hash, key, incarnation, sequence, sequence, hash, integer(0, 255), boolean, integer(0, 66560 + 1024), list(hash, 8), octets(65536),
)

/** The body of a HISTORY_GRAPH whose parts are those that its hashes name; `graph` is the hash that names them all. */
function readHistoryGraph(bytes) {
  const shapes = [list(octets(66560 + 1024), 128, 1), octets(32 * 16384), integer(0, 16383), integer(0, 2 ** 40), list(x => x), list(octets(66560 + 1024))]
  const [[proof, hashes, first, count, remains, operations]] = structure(read(bytes, 1000000), shapes)
  if (hashes.length % 32 || !remains.length || remains.length > GRAPH_PART * GRAPH_PARTS_AT_ONCE) throw malformed('graph')
  remains.forEach(remainsShape)
  inParts(remains).forEach((part, n) => {
    if (!partHash(part).equals(hashes.subarray(32 * (first + n), 32 * (first + n + 1)))) throw malformed('part of a graph')
  })
  return { proof: proof.map(readOperation), hashes, first, count, remains, operations, graph: graphHash(hashes) }
}

// Whose word counts

/** Rule 5: {covers, state} by the last part of a checkpoint, or null where its parts are not whole */
function wholeOf(history, last) {
  const [, count, digest] = last.fields
  const parts = []
  for (let each = last; each; each = history.held.get(each.parents[0])) {
    const isPart = each.kind === KINDS.CHECKPOINT && each.parents.length === 1 && each.author === last.author
    const fits = isPart && each.fields[0] === count - 1 - parts.length && each.fields[1] === count && each.fields[2].equals(digest)
    if (!fits) return null
    parts.unshift(each)
    if (parts.length < count) continue
    const covers = history.held.get(each.parents[0])
    const bytes = Buffer.concat(parts.map(part => part.fields[3]))
    const state = decode(bytes, MAXIMUM_STATE_BYTES)
    const whole = blake2b(bytes, 'covey/1 state').equals(digest) && covers && Array.isArray(state) && hexOf(state[0]) === covers.id
    return whole ? { covers, state, bytes } : null
  }
  return null
}

/** Every checkpoint of a history as a device judges it that has these pins, the last one first; `code` is '' where it counts. */
function judgeCheckpoints(history, pins, voids = new Set()) {
  const found = history.inOrder().filter(each => each.kind === KINDS.CHECKPOINT && each.fields[0] === each.fields[1] - 1).reverse()
  return found.map(last => judge(history, last, pins, voids))
}

function judge(history, last, pins, voids) {
  const whole = tried(() => wholeOf(history, last))
  if (!whole) return { last, signers: [], electors: [], bytes: null, code: 'checkpoint_parts' }
  const manifest = history.graph.get(last.manifest)
  const members = new Set(manifest.members.filter(member => !isBoard(member)).map(member => member.id))
  const named = { operators: new Set(whole.state[1].map(hexOf)), threshold: whole.state[2] }
  const { bytes, operators } = stateOf(history, whole.covers, named, members)
  const led = manifest.mode === MODES.ADMIN_INVITES || manifest.mode === MODES.PUBLIC
  const electors = led ? manifest.members.filter(member => member.role).map(member => member.id) : [...operators]
  const approvals = history.order.filter(each => each.kind === KINDS.APPROVAL && hexOf(each.fields[0]) === last.id && !voids.has(each.id))
  const signers = [...new Set([last, ...approvals].map(each => each.author))].filter(id => electors.includes(id)).sort()
  const asPinned = hexOf(encode(ids(named.operators))) === hexOf(encode(ids(pins.operators))) && named.threshold === pins.threshold
  const code =
    !led && !asPinned ? 'checkpoint_operators'
      : !bytes.equals(whole.bytes) ? 'checkpoint_state'
        : voids.has(last.id) ? 'checkpoint_void'
          : 2 * signers.length <= electors.length ? 'checkpoint_minority' : ''
  return { last, covers: whole.covers, signers, electors, bytes: whole.bytes, code, asPinned }
}

function tried(action) {
  try {
    return action()
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return null
  }
}

/** Rule 4: the checkpoints that an elector signs, among the last ones of each author */
function toSign(history, pins, id, voids) {
  const seen = new Set()
  return judgeCheckpoints(history, pins, voids).filter(each => {
    if (seen.has(each.last.author)) return false
    seen.add(each.last.author)
    const open = each.code === '' || each.code === 'checkpoint_minority'
    const clean = each.covers && ![...voids].some(voided => history.follows(each.covers, history.held.get(voided)))
    return open && each.asPinned && clean && each.electors.includes(id) && !each.signers.includes(id)
  })
}

/** Bodies of the parts of a state */
function partsOf(bytes) {
  const count = Math.ceil(bytes.length / PART_BYTES)
  const digest = blake2b(bytes, 'covey/1 state')
  return Array.from({ length: count }, (_, n) => encode([n, count, digest, bytes.subarray(n * PART_BYTES, (n + 1) * PART_BYTES)]))
}

module.exports = { judgeCheckpoints, partsOf, readHistoryGraph, stateOf, toSign, wholeOf }
