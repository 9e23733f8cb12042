// Sections 6 to 8: what a device has sent and not yet been told of, and what it has received of others. All of it lies in the store.
'use strict'
const { encode } = require('./cbor.js')
const { Refused } = require('./cbor.js')
const { inSet, writeMessage } = require('./messages.js')

const MAXIMUM_SEQUENCE_GAP = 10000
const MAXIMUM_RECEIVED_RANGES = 1024
const MAXIMUM_RANGES = 64
const IMPRINTS_KEPT = 1024
const IMPRINTS_NAMED = 512
const NEWEST_NAMED = 16
const CLOSED = 'ffffffff' // nothing came under that number
const FORGOTTEN = '00000000'
const RETRY_MS = [5000, 300000]
const WINDOW = 64
const OF_AUTHOR_GAPPED = new Set(['BLOB'])

/** Several changes that one commit stores, and that each other one of them sees. */
class Transaction {
  constructor(store) {
    Object.assign(this, { store, changes: new Map() })
  }

  get(name) {
    return this.changes.has(name) ? this.changes.get(name) : this.store.get(name)
  }

  set(name, value) {
    this.changes.set(name, value)
  }

  next(name) {
    const value = (this.get(name) ?? 0) + 1
    this.set(name, value)
    return value
  }

  commit() {
    this.store.commit([...this.changes])
    this.changes.clear()
  }
}

/** Adds the numbers from `first` to `last` to a received set. */
function addTo(set, first, last) {
  const all = [...(set.upto ? [[1, set.upto]] : []), ...set.ranges, [first, last]].sort((one, other) => one[0] - other[0])
  const joined = []
  for (const [from, to] of all) {
    const previous = joined.at(-1)
    if (previous && from <= previous[1] + 1) previous[1] = Math.max(previous[1], to)
    else joined.push([from, to])
  }
  set.upto = joined[0]?.[0] === 1 ? joined.shift()[1] : 0
  set.ranges = joined
}

/** The ranges from `first` to `last` that a received set lacks. */
function lacking(set, first, last) {
  const holes = []
  let from = Math.max(first, set.upto + 1)
  for (const [low, high] of [...set.ranges, [last + 1, Infinity]]) {
    if (from <= Math.min(low - 1, last)) holes.push([from, Math.min(low - 1, last)])
    from = Math.max(from, high + 1)
  }
  return holes
}

class Links {
  constructor(store, identity, now) {
    Object.assign(this, { store, identity, now, due: new Map(), tries: new Map() })
  }

  transaction() {
    return new Transaction(this.store)
  }

  /** Stores a message for a recipient; it is sent once the transaction is committed. */
  queue(tx, { to, groupId, type, body, number = null }) {
    const { incarnation } = this.identity
    const place = String(tx.next('place')).padStart(12, '0')
    const seq = tx.next('seq')
    const linkSeq = tx.next(`given/${to}/${incarnation.toString('hex')}`)
    const raw = this.write(type, to, groupId, body, seq, linkSeq)
    const entry = { to, group: groupId?.toString('hex') ?? null, type, life: incarnation.toString('hex'), linkSeq, seq, raw: raw.toString('hex'), number }
    tx.set('out/' + place, entry)
    return entry
  }

  write(type, to, groupId, body, seq = 0, linkSeq = 0) {
    const { signing, key, incarnation } = this.identity
    const recipient = Buffer.from(to, 'hex')
    return writeMessage(signing, {
      type, author: key, recipient, ...(groupId && { groupId }), incarnation, seq, linkSeq, sentAt: this.now() * 1000, body,
    })
  }

  *waiting(to = null) {
    for (const [place, entry] of this.store.under('out/')) if (to === null || entry.to === to) yield [place, entry]
  }

  /** [place, entry] of what may go now: messages in flight go again when their time is over, and others while the window has room. */
  toSend(now) {
    const flying = new Map()
    const send = []
    const classOf = ({ type }) => (['TELEMETRY', 'REDIRECTED', 'BLOB'].includes(type) ? 2 : type === 'OPERATIONS' ? 1 : 0)
    const all = [...this.waiting()].sort((one, other) => classOf(one[1]) - classOf(other[1]) || (one[0] < other[0] ? -1 : 1))
    for (const [place, entry] of all) {
      const window = entry.to + classOf(entry)
      const count = flying.get(window) ?? 0
      const tried = this.tries.get(place)
      if (count >= WINDOW) continue
      flying.set(window, count + 1)
      if (tried && now < tried.at + Math.min(RETRY_MS[1], RETRY_MS[0] * 2 ** (tried.count - 1))) continue
      this.tries.set(place, { count: (tried?.count ?? 0) + 1, at: now })
      send.push([place, entry])
    }
    return send
  }

  /** With each new connection everything in flight counts as lost, and goes again. */
  reconnected() {
    this.tries.clear()
  }

  linkName(message) {
    return `${message.author.toString('hex')}/${message.incarnation.toString('hex')}`
  }

  received(tx, name) {
    return tx.get('in/' + name) ?? { upto: 0, ranges: [], unsupported: [] }
  }

  /** Section 8, *Receiving*, 3: true where it is new, false where it has come before; an acknowledgement is due in both cases. */
  isNew(tx, message) {
    const name = this.linkName(message)
    const set = this.received(tx, name)
    const { linkSeq } = message
    const imprint = message.imprint.toString('hex')
    const mark = tx.get(`mark/${name}/${linkSeq}`)
    if (inSet(set, linkSeq)) {
      this.acknowledge(name, linkSeq)
      if (mark && mark[0] !== imprint && mark[0] !== CLOSED) throw new Refused('rollback')
      return false
    }
    if (!this.inStep(name, message)) {
      this.acknowledge(name, linkSeq, imprint)
      throw new Refused('rollback')
    }
    const ahead = OF_AUTHOR_GAPPED.has(message.type) && linkSeq > set.upto + MAXIMUM_SEQUENCE_GAP
    if (ahead || (set.ranges.length >= MAXIMUM_RECEIVED_RANGES && !set.ranges.some(([first, last]) => linkSeq === first - 1 || linkSeq === last + 1))) {
      this.acknowledge(name)
      throw new Refused('limit')
    }
    return true
  }

  /** Whether `seq` is as far from that of the nearest number kept as the link sequences are apart */
  inStep(name, { linkSeq, seq }) {
    let below = null
    let above = null
    for (const [n, [, theirs]] of this.store.under(`mark/${name}/`)) {
      if (theirs === null) continue
      const number = Number(n)
      if (number < linkSeq && (!below || number > below[0])) below = [number, theirs]
      if (number > linkSeq && (!above || number < above[0])) above = [number, theirs]
    }
    return (!below || seq - below[1] >= linkSeq - below[0]) && (!above || above[1] - seq >= above[0] - linkSeq)
  }

  take(tx, message, { unsupported = false } = {}) {
    const name = this.linkName(message)
    const set = structuredClone(this.received(tx, name))
    addTo(set, message.linkSeq, message.linkSeq)
    if (unsupported) set.unsupported = [...set.unsupported, message.linkSeq].slice(-IMPRINTS_KEPT)
    tx.set('in/' + name, set)
    tx.set(`mark/${name}/${message.linkSeq}`, [message.imprint.toString('hex'), message.seq])
    const forgotten = `mark/${name}/${message.linkSeq - IMPRINTS_KEPT}`
    if (tx.get(forgotten)) tx.set(forgotten, null)
    this.acknowledge(name, message.linkSeq)
  }

  /** Section 7: what nobody will send any more. `strictly` is a resumption's: a range begins where something has come, or right after. */
  close(tx, name, ranges, { strictly }) {
    const set = structuredClone(this.received(tx, name))
    for (const [first, last] of ranges) {
      if (strictly && !inSet(set, first) && !(first === 1 || inSet(set, first - 1))) continue
      const holes = lacking(set, first, last)
      for (const n of holes.flat()) tx.set(`mark/${name}/${n}`, [CLOSED, null])
      addTo(set, first, last)
      this.acknowledge(name)
      for (const n of holes.flatMap(([from, to]) => [from - 1, from, to, to + 1])) if (n && inSet(set, n)) this.acknowledge(name, n)
    }
    if (set.ranges.length > MAXIMUM_RECEIVED_RANGES) throw new Refused('limit')
    tx.set('in/' + name, set)
  }

  /** What would leave too many ranges closes nothing. */
  tryToClose(tx, name, ranges) {
    try {
      this.close(tx, name, ranges, { strictly: false })
    } catch (error) {
      if (!(error instanceof Refused)) throw error
    }
  }

  acknowledge(name, number = null, refused = null) {
    if (!this.due.has(name)) this.due.set(name, { since: this.now(), named: new Set(), refused: new Map(), messages: 0 })
    const due = this.due.get(name)
    if (number !== null) due.named.add(number)
    if (refused) due.refused.set(number, refused)
    due.messages++
  }

  acknowledgement(name) {
    const { named, refused } = this.due.get(name)
    const set = this.received(this.store, name)
    const newest = [...this.store.under(`mark/${name}/`)].map(([n]) => Number(n)).sort((a, b) => b - a).slice(0, NEWEST_NAMED)
    const numbers = [...new Set([...newest, ...named].slice(0, IMPRINTS_NAMED))].sort((a, b) => a - b)
    const ranges = set.ranges.slice(0, MAXIMUM_RANGES)
    const runs = []
    for (const n of numbers) {
      const mark = refused.get(n) ?? this.store.get(`mark/${name}/${n}`)?.[0] ?? (inSet(set, n) ? FORGOTTEN : null)
      if (mark === null) continue
      const run = runs.at(-1)
      if (run && run[0] + run[1].length / 4 === n) run[1] = Buffer.concat([run[1], Buffer.from(mark, 'hex')])
      else runs.push([n, Buffer.from(mark, 'hex')])
    }
    const unsupported = set.unsupported.filter(n => named.has(n) && inSet({ upto: set.upto, ranges }, n)).slice(0, 64).sort((a, b) => a - b)
    const life = Buffer.from(name.split('/')[1], 'hex')
    return encode([life, [set.upto, ranges], runs, ...(unsupported.length ? [new Map([[1, unsupported]])] : [])])
  }

  /** What an acknowledgement frees; null where it shows another life of this device (section 20). */
  acknowledged(tx, author, { incarnation, received, imprints, unsupported }) {
    const life = incarnation.toString('hex')
    const given = this.store.get(`given/${author}/${life}`) ?? 0
    const highest = Math.max(received.upto, ...received.ranges.map(range => range[1]))
    const present = life === this.identity.incarnation.toString('hex')
    if (present && highest > given) return null
    const named = new Map()
    for (const [first, marks] of imprints ?? []) {
      for (let at = 0; at < marks.length; at += 4) named.set(first + at / 4, marks.subarray(at, at + 4).toString('hex'))
    }
    const freed = []
    const held = new Set()
    for (const [place, entry] of this.waiting(author)) {
      if (entry.life !== life) continue
      const own = Buffer.from(entry.raw, 'hex').subarray(3, 7).toString('hex') // [signature, …]: 82 58 40, then the signature
      const mark = named.get(entry.linkSeq)
      if (present && mark !== undefined && mark !== own && mark !== FORGOTTEN) return null
      if (inSet(received, entry.linkSeq) && (imprints === null || mark === own)) {
        tx.set('out/' + place, null)
        this.tries.delete(place)
        freed.push({ ...entry, place, unsupported: unsupported.includes(entry.linkSeq) })
      } else held.add(entry.linkSeq)
    }
    if (freed.length) this.answered(author)
    return { freed, missing: this.missing(received, held, given) }
  }

  /** A recipient that answers is there: what was lost goes again soon. */
  answered(author) {
    for (const [place] of this.waiting(author)) if (this.tries.has(place)) this.tries.get(place).count = 1
  }

  /** Numbers that a recipient lacks and that are here no more: a RESUME names them. */
  missing(received, held, given) {
    const lowest = Math.min(...held)
    const end = held.size ? Math.max(lowest - 1, ...received.ranges.map(range => range[0] - 1)) : given
    const ranges = []
    for (let n = received.upto + 1; n <= end; n++) {
      if (inSet(received, n) || held.has(n)) continue
      if (ranges.at(-1)?.[1] === n - 1) ranges.at(-1)[1] = n
      else ranges.push([n, n])
    }
    return ranges.slice(0, MAXIMUM_RANGES + 1)
  }

  /** Section 20: what waits in an incarnation that another life has used goes again under new numbers. */
  beginAgain(tx, incarnation) {
    const ended = this.identity.incarnation.toString('hex')
    this.identity.incarnation = incarnation
    tx.set('incarnation', incarnation.toString('hex'))
    for (const [place, entry] of [...this.waiting()]) {
      if (entry.life !== ended) continue
      tx.set('out/' + place, null)
      if (entry.type === 'LINK') continue
      const { readMessage } = require('./messages.js')
      const { body } = readMessage(Buffer.from(entry.raw, 'hex'))
      this.queue(tx, { to: entry.to, groupId: entry.group && Buffer.from(entry.group, 'hex'), type: entry.type, body, number: entry.number })
    }
  }
}

module.exports = { Links, Transaction, addTo }
