// Section 23: operations, which ones a device takes, and which of them count.
'use strict'
const { Refused, decode, encode, limit, malformed } = require('./cbor.js')
const { compare } = require('./groups.js')
const { MODES, hexOf } = require('./manifests.js')
const { readOrderBody } = require('./orders.js')
const { blake2b, sign, verify } = require('./primitives.js')
const {
  ascending, boolean, exactly, hash, incarnation, integer, key, list, octets, orNull, read, sequence, signature, structure, text,
  tuple, uint63,
} = require('./shapes.js')

const MAXIMUM_BODY_BYTES = 65536
const MAXIMUM_OPERATION_BYTES = 66560
const FORKS_OF_ONE = 2
const LOGS_OF_ONE = 16
const MAXIMUM_AUTHOR_BYTES = 16777216
const VOID_PART = 64
const LOGS_BEHIND = 1024
const BYTES_BEHIND = 33554432
const FAMILY_BYTES_BEHIND = 134217728
const GROUP_BYTES_BEHIND = 1073741824
const ROOM = [GROUP_BYTES_BEHIND, FAMILY_BYTES_BEHIND, BYTES_BEHIND]
const KINDS = {
  MERGE: 0, NOTE: 1, PROFILE: 2, SESSION: 3, OPERATOR: 4, SETTING: 5, COMMAND: 6, APPROVAL: 7, OBEYING: 8, CHECKPOINT: 9, OWN_GROUP: 10,
  PREFERENCE: 11, FILE: 12, RELEASE: 13,
}
const LAST_KIND = 13

const mime = pattern => value => {
  if (!pattern.test(text(127)(value))) throw malformed('MIME type')
  return value
}
const nonEmpty = shape => value => {
  if (shape(value) === '') throw malformed('empty')
  return value
}
const anyMime = mime(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/)
const picture = tuple(mime(/^image\/[a-z0-9!#$&^_.+-]+$/), octets(49152))
const created = value => {
  if (value !== true) throw malformed('created')
  return value
}
const BODIES = {
  [KINDS.MERGE]: [],
  [KINDS.NOTE]: [anyMime, octets(MAXIMUM_BODY_BYTES), orNull(hash), orNull(hash)],
  [KINDS.PROFILE]: [text(128), text(4096), orNull(picture)],
  [KINDS.SESSION]: [text(2048), uint63, orNull(uint63), orNull(hash)],
  [KINDS.CHECKPOINT]: [integer(0, 15), integer(1, 16), hash, octets(60000)],
  [KINDS.OWN_GROUP]: [key, integer(0, 2), text(128)],
  [KINDS.PREFERENCE]: [orNull(key), nonEmpty(text(64)), orNull(text(1024))],
}
const reference = value => structure(value, [hash, hash, exactly(24), integer(0, 104857600)])[0]

/** The fields of an operation's body, or null where its kind is not known */
function readBody(kind, body) {
  if (kind > LAST_KIND) return null
  if (kind === KINDS.FILE) {
    const shapes = [text(255), exactly(16), hash, reference]
    return structure(decode(body, MAXIMUM_BODY_BYTES), shapes, { optional: [octets(61440)] })[0]
  }
  if (!(kind in BODIES)) return readOrderBody(kind, body)
  const optional = kind === KINDS.OWN_GROUP ? [created] : []
  const [fields] = structure(decode(body, MAXIMUM_BODY_BYTES), BODIES[kind], { optional })
  if (kind === KINDS.SESSION) {
    const [, started, ended, begun] = fields
    if ((ended === null) !== (begun === null) || (ended !== null && ended < started)) throw malformed('session')
  }
  if (kind === KINDS.CHECKPOINT && fields[0] >= fields[1]) throw malformed('part')
  return fields
}

/** Rules 1 to 3 */
function readOperation(bytes) {
  const [mark, document] = tuple(signature, octets(Infinity))(read(bytes, MAXIMUM_OPERATION_BYTES))
  const shapes = [
    integer(1, 1), key, key, incarnation, sequence, orNull(hash), list(hash, 8), sequence, hash, uint63, integer(0, 255),
    octets(MAXIMUM_BODY_BYTES),
  ]
  const [fields] = structure(decode(document, MAXIMUM_OPERATION_BYTES + 1024), shapes)
  const [, groupId, author, life, number, previous, parents, height, manifest, madeAt, kind, body] = fields
  verify(author, 'covey/1 operation', document, mark)
  ascending(parents, Buffer.compare)
  if (height < 1 || (height === 1) !== (parents.length === 0)) throw malformed('height')
  if (number < 1 || (previous !== null) !== number > 1) throw malformed('number')
  return {
    groupId, author: hexOf(author), incarnation: hexOf(life), number, previous: previous && hexOf(previous), parents: parents.map(hexOf),
    height, manifest: hexOf(manifest), madeAt, kind, body, raw: bytes, id: hexOf(blake2b(bytes, 'covey/1 op id')),
  }
}

function writeOperation(seed, fields) {
  const { groupId, author, incarnation: life, number, previous, parents, height, manifest, madeAt, kind, body } = fields
  const bytes = value => value && Buffer.from(value, 'hex')
  const document = encode([
    1, groupId, bytes(author), bytes(life), number, bytes(previous), [...parents].sort().map(bytes), height, bytes(manifest), madeAt, kind, body,
  ])
  return encode([sign(seed, 'covey/1 operation', document), document])
}

const logOf = operation => operation.author + operation.incarnation
const isBoard = member => member.capabilities.includes('board')

/** The operations of one group that a device holds. `graph` are its manifests. */
class History {
  constructor(groupId, graph) {
    Object.assign(this, { groupId, graph, held: new Map(), order: [], bits: 0 })
  }

  follows(one, other) {
    return Boolean((one.ancestors >> BigInt(other.bit)) & 1n)
  }

  /** Rules 4 to 13: null where it was taken or is here, 'waits', or an exception. `others` came with it, and may follow it. */
  offer(operation, others = []) {
    if (this.held.has(operation.id)) return null
    if (!operation.groupId.equals(this.groupId)) throw new Refused('not_for_us') // 4
    const parents = operation.parents.map(id => this.held.get(id))
    if (parents.includes(undefined)) return 'waits' // 5
    if (operation.height !== Math.max(0, ...parents.map(parent => parent.height)) + 1) throw malformed('height')
    const manifest = this.graph.get(operation.manifest) // 6
    if (!manifest) return 'waits'
    const author = manifest.members.find(member => member.id === operation.author)
    if (!author || isBoard(author)) throw new Refused('not_a_member')
    if (parents.some(parent => parent.version > manifest.version)) throw new Refused('rollback')
    if (operation.previous !== null) { // 7
      const previous = this.held.get(operation.previous)
      if (!previous) return 'waits'
      const next = logOf(previous) === logOf(operation) && previous.number === operation.number - 1 && previous.height < operation.height
      if (!next) throw malformed('previous')
    }
    this.checkShare(operation, parents, others) // 8, 9
    const body = readBody(operation.kind, operation.body) // 10
    this.checkKind(operation, manifest, author) // 11, 13
    this.take({ ...operation, fields: body, version: manifest.version }, parents)
    return null
  }

  take(operation, parents) {
    let ancestors = 0n
    const before = operation.previous === null ? parents : [...parents, this.held.get(operation.previous)]
    for (const each of parents) ancestors |= each.ancestors | (1n << BigInt(each.bit))
    const entry = { ...operation, ancestors, bit: this.bits++, before }
    this.held.set(entry.id, entry)
    this.order.push(entry)
  }

  /** *Shares*, unlimited */
  unlimited({ author, manifest }) {
    const { mode } = this.graph.get(manifest)
    return Boolean((mode === MODES.ADMIN_INVITES || mode === MODES.PUBLIC) && this.graph.state().members.get(author)?.role)
  }

  /** *Shares*, in_share */
  inShare(operation) {
    if (this.graph.get(operation.manifest) && this.unlimited(operation)) return true
    const others = this.order.filter(each => each.author === operation.author && each.id !== operation.id)
    const rivals = others.filter(each => logOf(each) === logOf(operation) && each.number === operation.number && each.id < operation.id)
    const upTo = others.filter(each => each.incarnation <= operation.incarnation)
    const before = new Set(upTo.filter(each => each.incarnation !== operation.incarnation).map(logOf))
    const bytes = upTo.reduce((sum, each) => sum + each.raw.length, operation.raw.length)
    return rivals.length < FORKS_OF_ONE && before.size < LOGS_OF_ONE && bytes <= MAXIMUM_AUTHOR_BYTES
  }

  checkShare(operation, parents, others) {
    if (!this.inShare(operation) && !this.isFollowed(operation, others)) throw limit('share of the history')
    const before = operation.previous === null ? parents : [...parents, this.held.get(operation.previous)]
    if (!this.mayFollow(operation.author, before)) throw limit('more of one author or family than an operation may follow')
  }

  /** *Shares*, take: whether one of `others` that is in its own author's share follows it */
  isFollowed(operation, others) {
    const reached = new Set([operation.id])
    const sorted = [...others].sort((one, other) => one.height - other.height || compare(one.id, other.id))
    for (const each of sorted) {
      if (![...each.parents, each.previous].some(id => reached.has(id))) continue
      if (this.inShare(each)) return true
      reached.add(each.id)
    }
    return false
  }

  /** *Shares*, line: [level, device, since] for each family of an author */
  line(author, named) {
    const unknown = [[2, author, 0n]]
    const below = []
    for (let manifest = this.graph.get(named), device = author; ; ) {
      const { since } = manifest.members.find(member => member.id === device) ?? {}
      if (since === undefined) return unknown
      if (since === 1n) return [[0, device, 1n], ...below.reverse().slice(0, 2).map((each, place) => [place + 1, ...each])]
      const admission = this.admission(manifest, device, since)
      if (!admission) return unknown
      if (admission.issuer === device) return [[1, '', 0n], [2, device, since]]
      if (this.knowsAdmins(admission)) return [[2, device, since]]
      below.push([device, since])
      manifest = admission
      device = admission.issuer
    }
  }

  /** The manifest that let a device in, and which another one is or follows */
  admission(manifest, device, since) {
    const lists = each => each?.members.some(member => member.id === device && member.since === since)
    let found = manifest
    while (found && found.version > since) found = found.prev.map(hash => this.graph.get(hash)).find(lists)
    return found
  }

  knowsAdmins({ mode }) {
    return mode === MODES.ADMIN_INVITES || mode === MODES.PUBLIC
  }

  /** *Shares*, may_follow */
  mayFollow(author, before) {
    const authors = new Map()
    const families = new Map()
    const reached = new Set()
    const left = [...before]
    while (left.length) {
      const each = left.pop()
      if (reached.has(each)) continue
      reached.add(each)
      left.push(...each.before)
      const manifest = this.graph.get(each.manifest)
      if (this.knowsAdmins(manifest) && manifest.members.find(member => member.id === each.author)?.role) continue
      const total = authors.get(each.author) ?? { logs: new Set(), bytes: 0 }
      authors.set(each.author, { logs: total.logs.add(logOf(each)), bytes: total.bytes + each.raw.length })
      if (each.author === author) continue
      for (const family of this.line(each.author, each.manifest).map(String)) {
        families.set(family, (families.get(family) ?? 0) + each.raw.length)
      }
    }
    const isWithin = ({ logs, bytes }) => logs.size <= LOGS_BEHIND && bytes <= BYTES_BEHIND
    return [...authors.values()].every(isWithin) && [...families].every(([family, bytes]) => bytes <= ROOM[family[0]])
  }

  /** *Shares*, has_room: of a former member */
  hasRoom(operation, former, part) {
    const lines = new Map(former.map(each => [each, this.linesOf(each)]))
    const rank = each => String(lines.get(each).reduce((least, [, , since]) => (since < least ? since : least), 1n << 64n)).padStart(20) + each
    const earlier = former.filter(each => rank(each) < rank(operation.author))
    const upTo = this.order.filter(each => each.author === operation.author && each.incarnation <= operation.incarnation)
    return lines.get(operation.author).every(family => {
      const relatives = earlier.filter(each => lines.get(each).map(String).includes(String(family)))
      const counted = [...upTo, ...this.order.filter(each => relatives.includes(each.author))]
      const room = Math.floor((family[0] === 2 ? MAXIMUM_AUTHOR_BYTES : ROOM[family[0]]) / part)
      return counted.reduce((sum, each) => sum + each.raw.length, 0) <= room
    })
  }

  linesOf(author) {
    return this.order.filter(each => each.author === author).flatMap(each => this.line(author, each.manifest))
  }

  /** *Shares*, settle: the operations that were dropped */
  settle() {
    const dropped = []
    const present = this.present()
    const isFormer = each => !present.has(each.author)
    const voids = this.order.some(isFormer) ? this.voids() : new Set()
    for (let before = -1; dropped.length > before; ) {
      before = dropped.length
      const followed = new Set(this.order.flatMap(each => [...each.parents, each.previous]))
      for (const each of this.order.filter(one => !followed.has(one.id))) {
        const former = [...new Set(this.order.filter(isFormer).map(one => one.author))]
        if (this.inShare(each) && (!isFormer(each) || this.hasRoom(each, former, voids.has(each.id) ? VOID_PART : 1))) continue
        this.held.delete(each.id)
        this.order.splice(this.order.indexOf(each), 1)
        dropped.push(each)
      }
    }
    return dropped
  }

  checkKind({ kind }, { mode }, author) {
    const admins = mode === MODES.ADMIN_INVITES || mode === MODES.PUBLIC
    if ((kind === KINDS.PROFILE || kind === KINDS.CHECKPOINT) && admins && !author.role) throw new Refused('not_allowed') // 11
    const personal = mode === MODES.PERSONAL
    if ((kind === KINDS.OWN_GROUP || kind === KINDS.PREFERENCE) && !personal) throw new Refused('not_allowed') // 13
    if (kind === KINDS.CHECKPOINT && personal) throw new Refused('not_allowed')
  }

  heads(among = this.order) {
    const followed = new Set(among.flatMap(each => each.parents))
    return among.filter(each => !followed.has(each.id))
  }

  inOrder() {
    return [...this.order].sort((one, other) => one.height - other.height || compare(one.id, other.id))
  }

  present() {
    const { members } = this.graph.state()
    return new Set([...members.values()].filter(member => !isBoard(member)).map(member => member.id))
  }

  /** Rule 12: the ids of what is void */
  voids() {
    const present = this.present()
    const knows = (operation, id) => {
      const member = this.graph.get(operation.manifest).members.find(each => each.id === id)
      return !member || isBoard(member)
    }
    const voided = (operation, judges) => {
      const aware = judges.filter(each => knows(each, operation.author))
      if (aware.some(each => this.follows(each, operation))) return false
      return aware.some(each => each.version >= operation.version)
    }
    const ofPresent = this.order.filter(each => present.has(each.author))
    const former = this.order.filter(each => !present.has(each.author))
    const standing = former.filter(each => !voided(each, ofPresent))
    const judges = operation => [...ofPresent, ...standing.filter(each => each.author !== operation.author)]
    return new Set(former.filter(each => voided(each, judges(each))).map(each => each.id))
  }

  /** How far each log has come, for HISTORY_PULL */
  logs() {
    const logs = new Map()
    for (const each of this.order) {
      const known = logs.get(logOf(each))
      if (!known || known.number < each.number) logs.set(logOf(each), each)
    }
    return [...logs].sort((one, other) => compare(one[0], other[0])).map(([, { author, incarnation: life, number }]) => [
      Buffer.from(author, 'hex'), Buffer.from(life, 'hex'), number,
    ])
  }
}

const readOperations = bytes => structure(read(bytes, 328720), [list(octets(MAXIMUM_OPERATION_BYTES + 1024), 256), uint63])[0]

/** {logs, wanted} or {salt, only, tags, wanted}, with the numbers of the logs that have these tags */
function readHistoryPull(bytes) {
  const value = read(bytes, 898192)
  if (!Array.isArray(value)) throw malformed('pull')
  if (Array.isArray(value[0])) {
    const log = tuple(key, incarnation, sequence)
    const [[logs, wanted]] = structure(value, [list(log, 16000), list(hash, 64)])
    ascending(logs, (one, other) => Buffer.compare(Buffer.concat(one.slice(0, 2)), Buffer.concat(other.slice(0, 2))))
    return { logs, wanted }
  }
  const shapes = [exactly(8), boolean, octets(4 * 16000), sequence, list(sequence, 16000), list(hash, 64)]
  const [[salt, only, packed, least, numbers, wanted]] = structure(value, shapes)
  if (packed.length !== 4 * numbers.length) throw malformed('tags')
  const tags = numbers.map((_, n) => packed.subarray(4 * n, 4 * n + 4))
  ascending(tags, Buffer.compare)
  if ((numbers.length ? Math.min(...numbers) : least) !== 0) throw malformed('least')
  return { salt, only, tags, numbers: numbers.map(number => number + least), wanted }
}

module.exports = { History, KINDS, isBoard, readBody, readHistoryPull, readOperation, readOperations, writeOperation }
