// Sections 5 to 7, 10, 22, 24 and 30: messages, and the bodies that every device writes or reads.
'use strict'
const { Refused, decode, encode, limit, malformed } = require('./cbor.js')
const { MAXIMUM_MESSAGE_BYTES } = require('./envelopes.js')
const { sign, usable, verify } = require('./primitives.js')
const {
  SEQUENCE, ascending, boolean, checkExtensions, exactly, incarnation, integer, key, list, octets, orNull, place, ranges, read, sequence,
  UINT63, signature, structure, text, tuple, uint63,
} = require('./shapes.js')

const TYPES = {
  BLOB: 0x03, GROUP_MANIFEST: 0x04, REVOKE: 0x05, JOIN: 0x06, LINK: 0x07, ACK: 0x08, TELEMETRY: 0x09, LOSS: 0x0a, GROUP_PULL: 0x0b,
  GROUP_VOTE: 0x0c, GROUP_INVITE: 0x0d, RESUME: 0x0e, FORWARD: 0x0f, COLLECTOR_KEY: 0x10, PRESENCE: 0x11, REDIRECTED: 0x12,
  OPERATIONS: 0x13, HISTORY_PULL: 0x14, HEADS: 0x15, SETTING_REPORT: 0x16, ORDER_RESULT: 0x17, EPHEMERAL: 0x18, HISTORY_GRAPH: 0x19,
  INVITE_REQUEST: 0x1a, SUMMARY: 0x1b,
  CONTENT_ACK: 0x71, CONTENT_PULL: 0x72, CONTENT_PART: 0x73, MAILBOX: 0x80,
}
const NAMES = new Map(Object.entries(TYPES).map(([name, number]) => [number, name]))
const UNSEQUENCED = new Set(['ACK', 'RESUME', 'PRESENCE', 'HEADS', 'EPHEMERAL', 'CONTENT_PULL', 'CONTENT_PART', 'MAILBOX'])
const ZEROS = Buffer.alloc(32)

function writeMessage(seed, { type, author, recipient, groupId = ZEROS, incarnation: life, seq = 0, linkSeq = 0, sentAt, body }) {
  const signed = encode([1, TYPES[type], author, recipient, groupId, life, seq, linkSeq, sentAt, body])
  return encode([sign(seed, 'covey/1 message', signed), signed])
}

/** What stands in a message; `unsupported` is true where only a newer device could use it, and it may be acknowledged as such. */
function readMessage(bytes) {
  const [mark, signed] = tuple(signature, octets(MAXIMUM_MESSAGE_BYTES))(decode(bytes, MAXIMUM_MESSAGE_BYTES))
  const shapes = [uint63, integer(0, 255), key, key, exactly(32), incarnation, sequence, sequence, uint63, octets(MAXIMUM_MESSAGE_BYTES)]
  const [fields, extensions] = structure(decode(signed, MAXIMUM_MESSAGE_BYTES), shapes, { later: true })
  const [version, number, author, recipient, groupId, life, seq, linkSeq, sentAt, body] = fields
  if (version !== 1) throw malformed('version')
  const type = NAMES.get(number) ?? null
  const neither = seq === 0 && linkSeq === 0
  const both = seq > 0 && linkSeq > 0
  if (!(type === null || type === 'FORWARD' ? neither || both : UNSEQUENCED.has(type) ? neither : both)) throw malformed('sequences')
  let unsupported = type === null
  try {
    checkExtensions(extensions)
  } catch (error) {
    if (error.code !== 'unsupported') throw error
    unsupported = true
  }
  verify(author, 'covey/1 message', signed, mark)
  const imprint = mark.subarray(0, 4)
  return { type, number, author, recipient, groupId, incarnation: life, seq, linkSeq, sentAt, body, imprint, unsupported, raw: bytes }
}

const NOTES = new Set(['ACK', 'PRESENCE'])
/** The message of a short one, which came under a link key that implies author, group and incarnation; else the bytes as they are */
function restored(bytes, { author, groupId, incarnation, batch }, recipient) {
  if (bytes[0] !== 0x86 || !groupId) return bytes
  const shapes = [exactly(64), integer(0, 255), sequence, sequence, uint63, octets(MAXIMUM_MESSAGE_BYTES)]
  const [mark, number, ...rest] = tuple(...shapes)(read(bytes, MAXIMUM_MESSAGE_BYTES))
  if (number === TYPES.TELEMETRY && batch) rest.push(restoredTelemetry(rest.pop(), batch))
  return encode([mark, encode([1, number, author, recipient, groupId, incarnation, ...rest])])
}

/** The body of a short one, whose batch has six fields; any other as it is, for its reader to judge */
function restoredTelemetry(body, implied) {
  let value
  try {
    value = read(body, MAXIMUM_MESSAGE_BYTES)
  } catch {
    return body
  }
  const [number, batch, ...extensions] = Array.isArray(value) ? value : []
  if (!Array.isArray(batch) || batch.length !== 6 || !(value.length === 2 || (value.length === 3 && extensions[0] instanceof Map))) return body
  const [clock, since, drift, named, inflated, packed] = batch
  const [late, later] = [since, drift].map(each => BigInt(integer(-(2n ** 63n), UINT63)(each)))
  const monotonic = BigInt(implied.monotonic) + late
  const wall = BigInt(implied.wall) + late + later
  for (const each of [monotonic, wall]) uint63(each)
  const known = read(implied.names, MAXIMUM_MESSAGE_BYTES)
  const nameOf = each => (typeof each === 'string' ? [each] : known.slice(2 * integer(0, known.length / 2 - 1)(each), 2 * each + 2))
  const names = named === null ? implied.names : encode(list(nameOf)(named).flat())
  const restored = encode([number, [1, implied.bootId, clock, monotonic, wall, names, inflated, packed], ...extensions])
  if (restored.length > 8192) throw malformed('short telemetry')
  return restored
}

/** What came under a link key: an array of two is a message. */
const isNote = bytes => bytes[0] !== 0x82
const SHARED = 20 // of heads, which are 32 bytes in a message
const SHORTENED = 64

/** A note; of the usual acknowledgement the short form */
function writeNote(type, heads, body) {
  const short = type === 'ACK' && body.length <= SHORTENED && shortened(body)
  return encode([TYPES[type], heads.subarray(0, SHARED), ...(short || [body])])
}

function shortened(body) {
  const { incarnation: life, received: { upto, ranges: beyond }, imprints: runs, unsupported } = readAcknowledgement(body)
  const [[first, marks] = []] = runs ?? []
  if (runs?.length !== 1 || beyond.length || unsupported.length || first + marks.length / 4 - 1 !== upto) return null
  return [life, upto, marks]
}

function restoredAcknowledgement([, , life, upto, marks]) {
  const count = marks.length / 4
  if (!count || !Number.isInteger(count) || count > upto) throw malformed('imprints')
  return encode([life, [upto, []], [[upto - count + 1, marks]]])
}

/** The message that a note under an author's link key stands for */
function readNote(bytes, author, recipient) {
  const shapes = [integer(0, 255), exactly(SHARED), octets(MAXIMUM_MESSAGE_BYTES)]
  const ofAcknowledgement = [integer(0, 255), exactly(SHARED), incarnation, sequence, octets(4 * MAXIMUM_IMPRINTS)]
  const value = read(bytes, MAXIMUM_MESSAGE_BYTES)
  const isShort = Array.isArray(value) && value.length === 5 && value[0] === TYPES.ACK
  const [fields] = structure(value, isShort ? ofAcknowledgement : shapes)
  const [number, said] = fields
  const body = isShort ? restoredAcknowledgement(fields) : fields[2]
  const groupId = Buffer.concat([said, Buffer.alloc(32 - SHARED)])
  const type = NAMES.get(number)
  if (!NOTES.has(type)) throw new Refused('unsupported')
  return { type, number, author, recipient, groupId, incarnation: Buffer.alloc(8), seq: 0, linkSeq: 0, sentAt: 0, body, unsupported: false, raw: bytes }
}

const MAXIMUM_RANGES = 64
const MAXIMUM_RUNS = 256
const MAXIMUM_IMPRINTS = 1024
const MAXIMUM_UNSUPPORTED = 64
const MAXIMUM_ACKNOWLEDGEMENT_BYTES = 10240

function received(value) {
  const [upto, beyond] = tuple(sequence, ranges(MAXIMUM_RANGES))(value)
  if (beyond.length && beyond[0][0] <= upto + 1) throw malformed('ranges')
  return { upto, ranges: beyond }
}
const inSet = ({ upto, ranges: beyond }, number) => number <= upto || beyond.some(([first, last]) => first <= number && number <= last)

function imprints(value) {
  const runs = list(tuple(place, octets(Infinity)), MAXIMUM_RUNS)(value)
  let after = 0
  let total = 0
  for (const [first, marks] of runs) {
    const count = marks.length / 4
    if (!count || !Number.isInteger(count) || first <= after || first + count - 1 > SEQUENCE) throw malformed('imprints')
    after = first + count - 1
    total += count
  }
  if (total > MAXIMUM_IMPRINTS) throw limit('imprints')
  return runs
}

function readAcknowledgement(bytes) {
  const value = read(bytes, MAXIMUM_ACKNOWLEDGEMENT_BYTES)
  const [[life, set, runs], extensions] = structure(value, [incarnation, received], { optional: [imprints] })
  const named = extensions.has(1) ? ascending(list(sequence, MAXIMUM_UNSUPPORTED)(extensions.get(1)), (a, b) => a - b) : []
  if (!named.every(number => number > 0 && inSet(set, number))) throw malformed('unsupported')
  return { incarnation: life, received: set, imprints: runs ?? null, unsupported: named }
}

function readLoss(bytes) {
  const shapes = [integer(1, 255), ranges(MAXIMUM_RANGES, 1), ranges(MAXIMUM_RANGES)]
  const [[reason, places, numbers, earlier]] = structure(read(bytes, 2560), shapes, { optional: [incarnation] })
  return { reason, places, numbers, earlier: earlier ?? null }
}

/** A resumption is an array of ranges without fields of its own. */
function readResumption(bytes) {
  const value = read(bytes, 2048)
  if (!Array.isArray(value)) throw malformed('resumption')
  const mapped = value.at(-1) instanceof Map
  const found = list(tuple(place, place), MAXIMUM_RANGES + 1)(mapped ? value.slice(0, -1) : value)
  if (found.some(([first, last]) => first > last)) throw malformed('range')
  checkExtensions(mapped ? value.at(-1) : null)
  return found
}

function readLink(bytes) {
  const names = value => {
    const known = list(text(128))(read(octets(2048)(value), 2048))
    if (known.length % 2) throw malformed('a name without a unit')
    return value
  }
  const shapes = [exactly(8), exactly(32), exactly(32), exactly(8), exactly(8), uint63, uint63, names]
  const value = read(bytes, 2240)
  const count = Array.isArray(value) ? value.filter(each => !(each instanceof Map)).length : 0
  return structure(value, shapes.slice(0, count > 4 ? 8 : count > 2 ? 4 : 2))[0]
}
const readForward = bytes => structure(read(bytes, 4160), [key, octets(4096)])[0]
const readEphemeral = bytes => structure(read(bytes, 1040), [uint63, octets(1024)])[0]

const noiseKey = value => {
  if (!usable(key(value))) throw malformed('noise key')
  return value
}

function readJoin(bytes) {
  const [[secret, noise, label], extensions] = structure(read(bytes, 512), [exactly(16), noiseKey, text(64)], { bound: 128 })
  announcement(extensions)
  return { secret, noise, label, extensions }
}

/** What a member's record or a join request announces (section 34, *Features* and *Judging rules*) */
function announcement(extensions) {
  if (extensions.has(1)) ascending(list(integer(1, 65535), 32)(extensions.get(1)), (a, b) => a - b)
  if (extensions.has(3)) integer(2, 255)(extensions.get(3))
  return { features: extensions.get(1) ?? null, rules: extensions.get(3) ?? 1 }
}

const [HERE, , GONE, ASLEEP] = [0, 1, 2, 3]
function readPresence(bytes) {
  const shapes = [uint63, integer(0, 3), integer(1, 691200), list(uint63, 8)]
  const [[counter, state, interval, connections], extensions] = structure(read(bytes, 128), shapes)
  ascending(connections, (a, b) => (a < b ? -1 : a > b ? 1 : 0))
  if ((state === HERE) !== connections.length > 0 || connections.some(number => number >= counter)) throw malformed('connections')
  const cost = state !== GONE && extensions.has(1) ? linkCost(extensions.get(1)) : null
  return { counter, state, interval, connections, cost }
}

/** What the link of a beat's author has cost, in bytes: `[today, month, forecast, [budget, monthly]]` (section 22) */
const linkCost = tuple(uint63, uint63, orNull(uint63), orNull(tuple(integer(1, UINT63), integer(0, 1))))

/** What a receiver makes of presences (section 22): `take` says whether one holds. */
class Presences {
  constructor() {
    this.beat = null
    this.ended = new Set()
  }

  take(presence) {
    if (presence.state !== GONE) {
      if (this.beat && presence.counter <= this.beat.counter) return false
      this.beat = presence
      this.ended.clear()
      return true
    }
    if (!this.beat || !this.beat.connections.includes(presence.counter) || this.ended.has(presence.counter)) return false
    this.ended.add(presence.counter)
    return true
  }

  get condition() {
    if (!this.beat) return 'unknown'
    if (this.beat.state === ASLEEP) return 'asleep'
    if (this.beat.state !== HERE) return 'stopped'
    return this.ended.size < this.beat.connections.length ? 'online' : 'gone'
  }
}

/** HEADS: fields beyond those that are known are passed over, as is an extension map. */
function readHeads(bytes) {
  const value = read(bytes, 65536)
  if (!Array.isArray(value) || value.length < 2) throw malformed('heads')
  const mapped = value.length > 2 && value.at(-1) instanceof Map
  const fields = mapped ? value.slice(0, -1) : value
  const groups = list(head => {
    if (!Array.isArray(head) || head.length < 3) throw malformed('head')
    const [groupId, version, manifests] = tuple(exactly(32), uint63, exactly(16))(head.slice(0, 3))
    return { groupId, version, manifests, history: head.length > 3 ? exactly(16)(head[3]) : null }
  }, 128)(fields[1])
  if (new Set(groups.map(head => head.groupId.toString('hex'))).size !== groups.length) throw malformed('a group twice')
  const answer = boolean(fields[0])
  const tags = fields[2] === true // anything else is what a later version adds
  const opens = fields.length > 3 ? key(fields[3]) : null
  if (opens && !usable(opens)) throw malformed('noise key')
  checkExtensions(mapped ? value.at(-1) : null)
  return { answer, groups, tags, opens }
}

const readPull = bytes => structure(read(bytes, 64), [uint63])[0][0]
const readGroupManifests = bytes => {
  const value = read(bytes, MAXIMUM_MESSAGE_BYTES)
  return structure(value, [list(octets(Infinity), 1024), list(exactly(32), 16)])[0]
}

module.exports = {
  NAMES, Presences, TYPES, UNSEQUENCED, ZEROS, announcement, inSet, isNote, noiseKey, readAcknowledgement, readEphemeral, readForward, readGroupManifests,
  readHeads, readJoin, readLink, readLoss, readMessage, readNote, readPresence, readPull, readResumption, restored, writeMessage,
  writeNote,
}
