// Sections 6, 8 and 13: a collector lands what comes for it in a vault: commit, then release.
'use strict'
const crypto = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')
const { encode, malformed } = require('./cbor.js')
const { bytesOf } = require('./holdings.js')
const { hexOf } = require('./manifests.js')
const messages = require('./messages.js')
const { readReport, readResult } = require('./orders.js')
const { sign, xPublic, xchacha } = require('./primitives.js')
const { readSummary, readTelemetry } = require('./telemetry.js')
const vault = require('./vault.js')

const LISTED_ONE_BY_ONE = 2000
const RANGE = 1000
const SEGMENT_BYTES = 4194304
const HELD = 32 // fewer than the relay delivers without an acknowledgement
const BATCHES = new Set(['TELEMETRY', 'SUMMARY'])
const LANDS = new Set(['TELEMETRY', 'SUMMARY', 'REDIRECTED', 'LOSS', 'SETTING_REPORT', 'ORDER_RESULT'])
const ZERO_HASH = Buffer.alloc(32)
const digestOf = content => crypto.createHash('sha256').update(content).digest('hex')
const padded = number => String(number).padStart(12, '0')

/** Writes a file so that it is there whole, and durable, or not at all. */
function put(folder, name, content, mode = 0o600) {
  const file = path.join(folder, name)
  fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const handle = fs.openSync(file + '.new', 'w', mode)
  fs.writeSync(handle, content)
  fs.fsyncSync(handle)
  fs.closeSync(handle)
  fs.renameSync(file + '.new', file)
  const directory = fs.openSync(path.dirname(file), 'r')
  fs.fsyncSync(directory)
  fs.closeSync(directory)
}

/**
 * The node that this device is in its vault. Its state in the store: `vault` (id, keys, epochs), `node` (manifest, ranges),
 * `entry/N` (segments that the manifest lists one by one), and `plan`, the segment that is being landed.
 */
class Landing {
  constructor(device) {
    this.device = device
    this.folder = path.join(device.options.state, 'vault')
    this.arrived = []
    this.bytes = 0
  }

  /** Whether this device lands messages of that type (section 8, *Receiving*, 5) */
  takes(type, holding, author) {
    const collects = each => each.members().get(this.device.identity.id)?.capabilities.includes('collector')
    return LANDS.has(type) && (holding ? [holding] : this.device.shared(author)).some(collects) // a LOSS names no group
  }

  /** What a message lands as; the exception of its type's reader where it is not one. */
  read({ type, author, groupId, body, raw }) {
    if (type === 'LOSS') messages.readLoss(body)
    if (type === 'SETTING_REPORT') readReport(body)
    if (type === 'ORDER_RESULT') readResult(body)
    if (!BATCHES.has(type) && type !== 'REDIRECTED') return raw
    const inner = type === 'REDIRECTED' ? messages.readMessage(body) : { type, author, groupId, body, raw }
    if (!BATCHES.has(inner.type) || !inner.author.equals(author) || !inner.groupId.equals(groupId)) throw malformed('redirected')
    if (inner.type === 'SUMMARY') readSummary(inner.body)
    else readTelemetry(inner.body)
    return inner.raw
  }

  /** Keeps a new message for the next segment: neither taken nor acknowledged until a manifest lists it. */
  hold(message, record, release) {
    const name = this.device.links.linkName(message)
    const twice = this.arrived.some(each => each.name === name && each.message.linkSeq === message.linkSeq)
    this.arrived.push({ name, message, record: twice ? null : record, receivedAt: this.device.now() * 1000, release })
    this.bytes += record.length
    if (this.bytes >= SEGMENT_BYTES || this.arrived.length >= HELD) this.land()
  }

  /** *Writing*, 1 to 4, with all that has come since the last time */
  land() {
    const { device } = this
    const batch = this.arrived.splice(0)
    this.bytes = 0
    if (!batch.length) return
    const fresh = batch.filter(each => each.record)
    this.keepKeys()
    const drawn = Array.from({ length: 3 }, () => hexOf(crypto.randomBytes(24)))
    const plan = {
      number: this.node().last + 1, incarnation: hexOf(device.identity.incarnation), nonces: drawn,
      createdAt: Math.max(device.now() * 1000, ...fresh.map(each => each.receivedAt)),
      records: fresh.map(({ receivedAt, record }) => [receivedAt, hexOf(record)]), taken: fresh.map(({ message }) => hexOf(message.raw)),
    }
    device.store.commit([['plan', plan]]) // 1
    this.carryOut(plan)
    for (const { release } of batch) release()
  }

  node() {
    return this.device.store.get('node') ?? { sequence: 0, prev: hexOf(ZERO_HASH), ranges: [], last: 0, digest: null }
  }

  /** What a crash has cut off is written once more, and the same bytes. */
  resume() {
    const plan = this.device.store.get('plan')
    if (plan) this.carryOut(plan)
  }

  carryOut({ number, incarnation, nonces, createdAt, records, taken }) {
    const { device } = this
    const id = vault.nodeId(device.identity.key)
    const vaultKey = { vault: bytesOf(device.store.get('vault').vault), key: bytesOf(this.keys()[0].key) }
    const [nonce, ofManifest, ofRange] = nonces.map(bytesOf)
    const planned = { number, incarnation: bytesOf(incarnation), nonce, createdAt, records: records.map(([at, record]) => [at, bytesOf(record)]) }
    const { object, entry } = vault.writeSegment(vaultKey, id, planned)
    put(this.folder, vault.segmentPath(vaultKey.vault, id, number, planned.incarnation), object) // 2
    const { node, folded } = this.publish(vaultKey, id, { entry, createdAt, ofManifest, ofRange }) // 3
    const tx = device.links.transaction() // 4
    tx.set('plan', null)
    tx.set('node', node)
    tx.set('entry/' + padded(number), spelled(entry))
    for (const each of folded) tx.set('entry/' + padded(each.number), null)
    for (const raw of taken) this.release(tx, messages.readMessage(bytesOf(raw)))
    tx.commit()
    device.say({ event: 'landed', segment: number, records: records.length })
  }

  release(tx, message) {
    const { links } = this.device
    const name = links.linkName(message)
    links.take(tx, message)
    if (message.type === 'LOSS') {
      const { places, earlier } = messages.readLoss(message.body)
      links.tryToClose(tx, `${hexOf(message.author)}/${hexOf(earlier ?? message.incarnation)}`, places)
    }
    links.due.get(name).since = -Infinity // that acknowledgement goes at once
  }

  entries() {
    return [...this.device.store.under('entry/')].map(([, entry]) => parsed(entry))
  }

  /** Puts the manifest over the one that this node wrote last, and over no other: that would be of a twin, or of a lost state. */
  publish(vaultKey, id, { entry, createdAt, ofManifest, ofRange }) {
    const { sequence, prev, digest, ranges: named } = this.node()
    let [entries, ranges, folded] = [[...this.entries(), entry], named.map(parsed), []]
    if (entries.length >= LISTED_ONE_BY_ONE) {
      ;[folded, entries] = [entries.slice(0, RANGE), entries.slice(RANGE)]
      const { object, range } = vault.writeRange(vaultKey, id, ofRange, folded)
      put(this.folder, vault.rangePath(vaultKey.vault, id, range), object)
      ranges = [...ranges, range]
    }
    const { object, hash } = vault.writeVaultManifest(vaultKey, this.device.identity, {
      nonce: ofManifest, sequence: sequence + 1, prev: bytesOf(prev), createdAt, ranges, segments: entries,
    })
    const name = vault.manifestPath(vaultKey.vault, id)
    const file = path.join(this.folder, name)
    const found = fs.existsSync(file) ? digestOf(fs.readFileSync(file)) : null
    if (found !== digest && found !== digestOf(object)) throw new Error(`${name}: another one wrote it; this node writes nothing over it`)
    put(this.folder, name, object)
    const node = { sequence: sequence + 1, prev: hexOf(hash), ranges: ranges.map(spelled), last: entry.number, digest: digestOf(object) }
    return { node, folded }
  }

  // Keys (sections 13, *Rotating keys*, and 14)

  keys() {
    return this.device.store.get('vault').keys
  }

  /** Before anything is sealed: a key of its own for every removal that this device knows of. */
  keepKeys() {
    const { device } = this
    const kept = device.store.get('vault') ?? { vault: hexOf(crypto.randomBytes(16)), keys: [], epochs: {} }
    const epochs = {}
    for (const holding of device.holdings.values()) if (holding.isMember) epochs[holding.id] = hexOf(holding.newest().epochId)
    const over = Object.entries(kept.epochs).some(([group, epoch]) => epochs[group] !== epoch)
    if (over || !kept.keys.length) kept.keys = [{ key: hexOf(crypto.randomBytes(32)), since: device.now() * 1000 }, ...kept.keys]
    else if (JSON.stringify(kept.epochs) === JSON.stringify(epochs)) return
    device.store.commit([['vault', { ...kept, epochs }], ['reader', device.store.get('reader') ?? hexOf(crypto.randomBytes(32))]])
    this.writeKeyFile()
    this.putKeyObject()
  }

  writeKeyFile() {
    const { vault: id, keys, epochs } = this.device.store.get('vault')
    const spelledKeys = keys.map(({ key, since }) => ({ key_id: hexOf(vault.keyId(bytesOf(key))), key, since_us: since }))
    const file = { vault_id: id, keys: spelledKeys, epochs, readers: [], reader_secret: this.device.store.get('reader') }
    put(this.device.options.state, 'vault.key', JSON.stringify({ ...file, check: hexOf(vault.checkOf(file)) }))
  }

  /** *Sharing keys*: this node gives its keys to nobody but those who hold its newest one. */
  putKeyObject() {
    const { identity, store } = this.device
    const { vault: id, keys } = store.get('vault')
    const [vaultId, node] = [bytesOf(id), vault.nodeId(identity.key)]
    const newest = bytesOf(keys[0].key)
    const nonce = crypto.randomBytes(24)
    const listed = xchacha(encode(keys.map(({ key, since }) => [bytesOf(key), since])), nonce, newest, encode(['covey/1 vault keys', vaultId, node]))
    const document = encode([
      1, vaultId, node, identity.key, xPublic(bytesOf(store.get('reader'))), vault.keyId(newest), xPublic(crypto.randomBytes(32)), nonce, [], listed,
    ])
    put(this.folder, vault.keysPath(vaultId, node), encode([sign(identity.signing, 'covey/1 vault keys', document), document]))
  }
}

// As they lie in the store
const BYTES = ['incarnation', 'hash']
const spelled = fields => Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, BYTES.includes(name) ? hexOf(value) : value]))
const parsed = fields => Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, BYTES.includes(name) ? bytesOf(value) : value]))

module.exports = { Landing }
