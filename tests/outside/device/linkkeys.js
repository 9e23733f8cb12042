// Section 4, *Link keys*: the keys by which this device seals for others, and those that others have given it.
'use strict'
const crypto = require('node:crypto')
const { encode } = require('./cbor.js')
const envelopes = require('./envelopes.js')
const { hexOf } = require('./manifests.js')
const { readLink } = require('./messages.js')

const AFTER_ENVELOPES = 8
const MAXIMUM_ENVELOPES = 65536
const USED_MS = 3600000
const KEPT = 4
const KEPT_MS = 8 * 86400000

/** The keys that this device has drawn, in memory only: a process that starts draws new ones (rule 1). */
class OwnLinkKeys {
  constructor() {
    this.keys = new Map() // by recipient: {tag, key, noise, at, usable, counter}
    this.sealed = new Map() // by recipient: when envelopes were sealed for it
    this.heard = new Set()
    this.sendings = new Map() // by place in the queue: the tag by which its message went first, null where it was sealed
  }

  /** Seals a message, by link where the rules let it, then perhaps as a note; `place` is that of a sequenced one, and tells a repetition. */
  seal(to, raw, noise, now, { place = null, mayLink = false, note = null } = {}) {
    const first = place === null || !this.sendings.has(place)
    if (!first && this.sendings.get(place)) this.end(to, this.sendings.get(place)) // 4: it has to be sent again
    const key = mayLink && first ? this.usable(to, noise, now) : null
    if (place !== null) this.sendings.set(place, key && hexOf(key.tag))
    if (key) return envelopes.sealByLink(note ?? raw, key.tag, key.key, key.counter++)
    const lately = (this.sealed.get(to) ?? []).filter(at => now - at < USED_MS)
    this.sealed.set(to, [...lately, now].slice(-AFTER_ENVELOPES))
    return envelopes.seal(raw, noise)
  }

  usable(to, noise, now) {
    const key = this.keys.get(to)
    if (!key?.usable) return null
    const over = !key.noise.equals(noise) || key.counter > MAXIMUM_ENVELOPES || now - key.at >= USED_MS // 4
    if (over) this.keys.delete(to)
    return over ? null : key
  }

  /** Rule 4: this key is used no more; another one is due at once. */
  end(to, tag = null) {
    const key = this.keys.get(to)
    if (!key?.usable || (tag && hexOf(key.tag) !== tag)) return
    this.keys.delete(to)
    this.due = (this.due ?? new Set()).add(to)
  }

  /** The body of a LINK for a recipient, where one is due (5); `noise` is the recipient's key by now. */
  begin(to, noise, now) {
    if (this.keys.has(to) || !this.heard.has(to)) return null
    const lately = (this.sealed.get(to) ?? []).filter(at => now - at < USED_MS)
    if (lately.length < AFTER_ENVELOPES && !this.due?.has(to)) return null
    this.due?.delete(to)
    const [tag, key] = [crypto.randomBytes(8), crypto.randomBytes(32)]
    this.keys.set(to, { tag, key, noise, at: now, usable: false, counter: 1 })
    return encode([tag, key])
  }

  /** A LINK was acknowledged: its key may be used, if this process has drawn it. */
  acknowledged(to, body) {
    const key = this.keys.get(to)
    if (!key?.tag.equals(readLink(body)[0])) return false
    key.usable = true
    return true
  }

  /** A message was acknowledged, or is withdrawn. */
  forget(place) {
    this.sendings.delete(place)
  }
}

/** The keys that others have given this device, by tag; each is sealed for the noise key that opened its envelope (6). */
class GivenLinkKeys {
  constructor(store, identity, isShared, now) {
    Object.assign(this, { store, identity, isShared, now, opened: new Map() })
  }

  take(tx, author, body, noise) {
    const [tag] = readLink(body)
    const name = 'linkkey/' + hexOf(tag)
    if (tx.get(name)) return
    tx.set(name, { author, box: hexOf(envelopes.seal(body, noise)), at: this.now() })
    const own = [...this.store.under('linkkey/')].filter(([, each]) => each.author === author).sort((one, other) => one[1].at - other[1].at)
    for (const [old] of own.slice(0, Math.max(0, own.length - KEPT + 1))) this.wipe(tx, old)
  }

  wipe(tx, tag) {
    tx.set('linkkey/' + tag, null)
    this.opened.delete(tag)
  }

  /** Wipes what is too old, and what is of a device that shares no group any more. */
  look(tx) {
    for (const [tag, { author, at }] of [...this.store.under('linkkey/')]) {
      if (this.now() - at > KEPT_MS || !this.isShared(author)) this.wipe(tx, tag)
    }
  }

  /** {author, key, groupId, incarnation, batch}, the last three where its short messages imply them; null where nobody has told that tag */
  find(tag) {
    const name = hexOf(tag)
    if (!this.opened.has(name)) {
      const found = this.store.get('linkkey/' + name)
      if (!found) return null
      const { message } = envelopes.open(Buffer.from(found.box, 'hex'), this.identity.noise.map(each => each.secret))
      const [, linkKey, groupId, incarnation, bootId, monotonic, wall, names] = readLink(message)
      const batch = bootId && { bootId, monotonic, wall, names }
      this.opened.set(name, { author: found.author, key: linkKey, groupId, incarnation, batch })
    }
    return this.opened.get(name)
  }
}

module.exports = { GivenLinkKeys, OwnLinkKeys }
