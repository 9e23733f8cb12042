// The groups that a device holds or has asked to join: manifests, secrets and history, as they lie in the store.
'use strict'
const { Refused, encode } = require('./cbor.js')
const { Group } = require('./groups.js')
const { digestOf } = require('./heads.js')
const { History, isBoard, readOperation, writeOperation } = require('./history.js')
const { hexOf, readManifest } = require('./manifests.js')
const { readGroupManifests } = require('./messages.js')
const { blake2b } = require('./primitives.js')

const BUNDLE_MANIFESTS = 64
const BUNDLE_BYTES = 270336
const BUNDLE_OPERATIONS = 256
const BUNDLE_OPERATION_BYTES = 262144
const WAITING_MANIFESTS = 64
const WAITING_OPERATIONS = 512
const MAXIMUM_PARENTS = 8
const bytesOf = hex => Buffer.from(hex, 'hex')

/** As many as one message carries, from the first on, one at least */
function fitting(raws, count, bytes) {
  let total = 0
  const end = raws.findIndex((raw, n) => n >= count || (n && (total += raw.length) > bytes))
  return end < 0 ? raws : raws.slice(0, end)
}

class Holding {
  constructor(id, store, identity) {
    Object.assign(this, { id, groupId: bytesOf(id), store, identity })
    this.waiting = new Map() // manifests by hash that lack what they follow
    this.pending = new Map() // operations by id, likewise
    const about = store.get('group/' + id)
    this.group = new Group({ groupId: this.groupId, join: this.joinOf(about) })
    const manifests = [...store.under(`manifest/${id}/`)].map(([, raw]) => readManifest(bytesOf(raw)))
    manifests.sort((one, other) => (one.version < other.version ? -1 : 1))
    if (manifests.length) this.begin(manifests)
    if (this.graph) this.restoreHistory()
  }

  joinOf(about) {
    return about?.inviter && { inviter: about.inviter, device: this.identity.id, noise: this.identity.noise.map(secret => secret.public) }
  }

  begin(manifests) {
    this.group = Group.of(manifests[0])
    for (const manifest of manifests.slice(1)) this.graph.take(manifest)
    this.history ??= new History(this.groupId, this.graph)
    this.history.graph = this.graph
  }

  restoreHistory() {
    this.history = new History(this.groupId, this.graph)
    for (const [name, raw] of this.store.under(`operation/${this.id}/`)) {
      this.history.bits = Number(name.split('/').at(-1))
      const operation = readOperation(bytesOf(raw))
      const { readBody } = require('./history.js')
      const entry = { ...operation, fields: readBody(operation.kind, operation.body), version: this.graph.get(operation.manifest).version }
      this.history.take(entry, operation.parents.map(parent => this.history.held.get(parent)))
    }
  }

  get graph() {
    return this.group.graph
  }

  get about() {
    return this.store.get('group/' + this.id)
  }

  members() {
    return this.graph?.state().members ?? new Map()
  }

  get isMember() {
    return this.members().has(this.identity.id)
  }

  isShared(id) {
    const member = this.members().get(id)
    return this.isMember && Boolean(member) && !isBoard(member)
  }

  others() {
    return [...this.members().values()].filter(member => member.id !== this.identity.id && !isBoard(member)).map(member => member.id)
  }

  /** The collector that this device's telemetry goes to, or null */
  collector() {
    if (!this.isMember) return null
    const rank = id => hexOf(blake2b(Buffer.concat([this.identity.key, bytesOf(id)]), 'covey/1 rendez'))
    const able = [...this.members().values()].filter(member => member.capabilities.includes('collector')).map(member => member.id)
    return able.sort((one, other) => (rank(one) < rank(other) ? 1 : -1))[0] ?? null
  }

  noiseOf(id) {
    const listed = this.members().get(id)
    if (listed) return listed.noise
    const about = this.about
    if (about?.inviter === id && !this.graph) return bytesOf(about.inviterNoise)
    const before = [...(this.graph?.masks ?? [])].sort((one, other) => (one.version < other.version ? 1 : -1))
    return before.flatMap(entry => entry.members).find(member => member.id === id)?.noise ?? null
  }

  /** Takes the manifests of one message: {taken, lacking}. Others that wait have their turn, too. */
  takeManifests(tx, raws, secrets) {
    const read = []
    for (const raw of raws) {
      try {
        read.push(readManifest(raw))
      } catch (error) {
        if (!(error instanceof Refused)) throw error
      }
    }
    let taken = 0
    if (!this.graph) {
      const newest = [...read].sort((one, other) => (one.version < other.version ? 1 : -1))
      taken += newest.some(manifest => this.tried(() => this.group.offer(manifest.raw)) === 'accepted')
      if (!this.graph) throw new Refused('invite')
      this.history = new History(this.groupId, this.graph)
    }
    for (const manifest of read) this.waiting.set(manifest.hash, manifest)
    for (let before = -1; taken > before; ) {
      before = taken
      for (const [hash, manifest] of [...this.waiting].sort((one, other) => (one[1].version < other[1].version ? -1 : 1))) {
        const outcome = this.tried(() => (this.graph.believe(manifest) ? 'accepted' : this.graph.offer(manifest)))
        if (outcome === 'version_gap' || (outcome === 'rollback' && manifest.prev.some(each => !this.graph.get(each)))) continue
        this.waiting.delete(hash)
        taken += outcome === 'accepted'
      }
    }
    while (this.waiting.size > WAITING_MANIFESTS) this.waiting.delete(this.waiting.keys().next().value)
    for (const entry of this.graph.masks) if (!tx.get(`manifest/${this.id}/${entry.hash}`)) tx.set(`manifest/${this.id}/${entry.hash}`, hexOf(entry.raw))
    for (const secret of secrets) {
      const epoch = blake2b(secret, 'covey/1 epoch')
      if (this.graph.masks.some(entry => entry.epochId.equals(epoch))) tx.set(`secret/${this.id}/${hexOf(epoch)}`, hexOf(secret))
    }
    return { taken, lacking: this.waiting.size > 0 }
  }

  tried(action) {
    try {
      return action()
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return error.code
    }
  }

  newest() {
    const order = this.graph.heads().sort((one, other) => (one.version < other.version ? -1 : one.version > other.version ? 1 : one.hash < other.hash ? -1 : 1))
    return this.graph.current() ?? order.at(-1)
  }

  /** The body of a GROUP_MANIFEST: manifests from a version on, and the secret of the epoch */
  manifestsFrom(version, upTo = null) {
    const all = upTo ? this.graph.closure([upTo]) : this.graph.masks
    const order = all.filter(entry => entry.version >= version).sort((one, other) => (one.version < other.version ? -1 : 1))
    const secret = upTo ? null : this.store.get(`secret/${this.id}/${hexOf(this.newest().epochId)}`)
    return encode([fitting(order.map(entry => entry.raw), BUNDLE_MANIFESTS, BUNDLE_BYTES), secret ? [bytesOf(secret)] : []])
  }

  /** Whether the body of a GROUP_MANIFEST brings this one, and all that it follows from the first one there on */
  holdsAll(body, manifest) {
    return readGroupManifests(body)[0].some(raw => raw.equals(manifest.raw))
  }

  headDigest() {
    return digestOf(this.graph.heads().map(head => bytesOf(head.hash)), 'covey/1 heads')
  }

  historyDigest() {
    const present = this.history.present()
    const own = this.history.order.filter(each => present.has(each.author))
    return digestOf(this.history.heads(own).map(each => bytesOf(each.id)), 'covey/1 op heads')
  }

  /** Takes operations: {taken, lacking}. What waits is tried again whenever something comes. */
  takeOperations(tx, raws) {
    for (const raw of raws) {
      const operation = this.tried(() => readOperation(raw))
      if (typeof operation === 'object') this.pending.set(operation.id, operation)
    }
    let taken = 0
    for (let before = -1; taken > before; ) {
      before = taken
      const others = [...this.pending.values()]
      for (const operation of others.sort((one, other) => one.height - other.height || (one.id < other.id ? -1 : 1))) {
        const outcome = this.tried(() => this.history.offer(operation, others))
        if (outcome === 'waits') continue
        this.pending.delete(operation.id)
        if (outcome === null && this.keepOperation(tx, operation.id)) taken++
      }
    }
    for (const { bit } of this.history.settle()) tx.set(this.nameOfOperation(bit), null)
    while (this.pending.size > WAITING_OPERATIONS) this.pending.delete(this.pending.keys().next().value)
    return { taken, lacking: this.pending.size > 0 }
  }

  /** Whether an operation waits for a manifest that is not here */
  lacksManifests() {
    return [...this.pending.values()].some(operation => !this.graph.get(operation.manifest))
  }

  nameOfOperation(bit) {
    return `operation/${this.id}/${String(bit).padStart(9, '0')}`
  }

  keepOperation(tx, id) {
    const entry = this.history.held.get(id)
    const name = this.nameOfOperation(entry.bit)
    if (tx.get(name)) return false
    tx.set(name, hexOf(entry.raw))
    return true
  }

  /** Section 23, *Writing*: signs an operation after all that it may follow. */
  writeOperation(tx, kind, body, madeAt) {
    const own = hexOf(this.identity.incarnation)
    const voids = this.history.voids()
    const manifest = this.newest()
    const usable = this.history.order.filter(each => !voids.has(each.id) && each.version <= manifest.version)
    const log = this.history.order.filter(each => each.author === this.identity.id && each.incarnation === own)
    const previous = log.sort((one, other) => one.number - other.number).at(-1) ?? null
    const heads = this.history.heads(usable).sort((one, other) => other.height - one.height)
    const parents = [...new Set([...(previous && heads.includes(previous) ? [previous] : []), ...heads])].slice(0, MAXIMUM_PARENTS)
    const raw = writeOperation(this.identity.signing, {
      groupId: this.groupId, author: this.identity.id, incarnation: own, number: (previous?.number ?? 0) + 1, previous: previous?.id ?? null,
      parents: parents.map(each => each.id), height: Math.max(0, ...parents.map(each => each.height)) + 1, manifest: manifest.hash, madeAt, kind, body,
    })
    const operation = readOperation(raw)
    this.history.offer(operation)
    this.keepOperation(tx, operation.id)
    return operation
  }

  operationsBody(operations, more = 0) {
    const sent = fitting(operations.map(each => each.raw), BUNDLE_OPERATIONS, BUNDLE_OPERATION_BYTES)
    return encode([sent, Math.max(more, operations.length - sent.length)])
  }

  /** What a HISTORY_PULL asks for, lowest first; null where there is nothing */
  answerPull(pull) {
    const tagOf = each => hexOf(blake2b(Buffer.concat([pull.salt, bytesOf(each.author), bytesOf(each.incarnation)]), 'covey/1 log tag').subarray(0, 4))
    const known = pull.logs
      ? new Map(pull.logs.map(([author, life, number]) => [hexOf(author) + hexOf(life), number]))
      : new Map(pull.tags.map((tag, n) => [hexOf(tag), pull.numbers[n]]))
    const nameOf = each => (pull.logs ? each.author + each.incarnation : tagOf(each))
    const wanted = new Set(pull.wanted.map(hexOf))
    const lacks = each => wanted.has(each.id) || (known.has(nameOf(each)) ? each.number > known.get(nameOf(each)) : !pull.only)
    const found = this.history.inOrder().filter(lacks)
    return found.length ? this.operationsBody(found) : null
  }

  pullBody() {
    const wanted = [...new Set([...this.pending.values()].flatMap(each => [...each.parents, ...(each.previous ? [each.previous] : [])]))]
    const missing = wanted.filter(id => !this.history.held.has(id) && !this.pending.has(id)).sort().slice(0, 64)
    return encode([this.history.logs(), missing.map(bytesOf)])
  }
}

module.exports = { Holding, bytesOf }
