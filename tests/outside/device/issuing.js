// Sections 9, 10 and 35: manifests that this device issues, for a group of its own making or one that it is in.
'use strict'
const crypto = require('node:crypto')
const { Refused, encode } = require('./cbor.js')
const { draft, genesis } = require('./draft.js')
const { KINDS } = require('./history.js')
const { Holding, bytesOf } = require('./holdings.js')
const { inviteId, writeInvite } = require('./invites.js')
const { MAXIMUM_MEMBERS, hexOf, readManifest } = require('./manifests.js')

const INVITE_MS = 600000
const OWN_CONFLICT_MS = [2000, 15000]
const CONFLICT_MS = [30000, 120000]
const RETIRED_MS = 3600000
const between = ([least, most]) => least + Math.random() * (most - least)

class Issuing {
  constructor(device, features) {
    Object.assign(this, { device, features, conflicts: new Map() })
  }

  /** This device's own record; what it announces is the extension map. */
  ownRecord(since) {
    const { key, id, noise } = this.device.identity
    const { label, capabilities } = this.device.options
    return this.record({ signing: key, id, noise: noise[0].public, label, capabilities, since, extensions: new Map([[1, this.features]]) })
  }

  record({ signing, id, noise, label, capabilities, since, extensions, role = 0 }) {
    return { signing, id, noise, name: id.slice(0, 8), label, role, capabilities: [...capabilities].sort(), since, allowance: 0, extensions }
  }

  /** M5: a group of the mode in which everybody is equal, with nobody else in it */
  create() {
    const { device } = this
    const { identity } = device
    const [groupId, secret] = [crypto.randomBytes(32), crypto.randomBytes(32)]
    const raw = genesis(identity, groupId, this.ownRecord(1n), secret)
    const manifest = readManifest(raw)
    const id = hexOf(groupId)
    const tx = device.links.transaction()
    tx.set('group/' + id, { relay: device.relay() })
    tx.set(`manifest/${id}/${manifest.hash}`, hexOf(raw))
    tx.set(`secret/${id}/${hexOf(manifest.epochId)}`, hexOf(secret))
    tx.commit()
    device.holdings.set(id, new Holding(id, device.store, identity))
    device.say({ event: 'member', group: id, device: identity.id })
  }

  // Inviting (section 10)

  /** The URI of an invite; only its id is kept. Whoever uses it has these capabilities. */
  invite(holding, capabilities) {
    const { device } = this
    const secret = crypto.randomBytes(16)
    const expiresAt = device.now() + INVITE_MS
    const { key, noise } = device.identity
    const relayUrl = device.relay() ?? ''
    device.store.commit([[`invite/${holding.id}/${hexOf(inviteId(secret))}`, { expiresAt, capabilities, usedBy: null }]])
    return writeInvite({ groupId: holding.groupId, inviter: key, noise: noise[0].public, secret, expiresAt: expiresAt * 1000, relayUrl })
  }

  /** 3 and 4: the invite that a JOIN may use, else `invite`; null where its author is only to be told that there is none. */
  openInvite(holding, author, { secret, noise }) {
    const id = hexOf(inviteId(secret))
    const invite = this.device.store.get(`invite/${holding.id}/${id}`)
    const { members, bans } = holding.graph.state()
    const isMember = members.has(author)
    const own = invite && (invite.usedBy === null || invite.usedBy === author)
    if (!own && holding.isShared(author)) return null
    const late = invite?.usedBy === null ? this.device.now() > invite.expiresAt : !isMember // used, and its user has left since
    const taken = [...members.values()].some(member => member.id !== author && member.noise.equals(noise))
    const full = !isMember && members.size >= MAXIMUM_MEMBERS
    if (!own || late || taken || full || bans.has(id) || bans.has(author)) throw new Refused('invite')
    return { id, ...invite }
  }

  /** Marks the invite used and lets its bearer in, in one commit with the message that asked. */
  letIn(tx, holding, author, request) {
    const { device } = this
    const invite = this.openInvite(holding, author, request)
    if (!invite) return this.tell(tx, holding, author, encode([[], []]))
    const { id, capabilities, expiresAt } = invite
    tx.set(`invite/${holding.id}/${id}`, { expiresAt, capabilities, usedBy: author })
    const heads = holding.graph.heads()
    const isMember = holding.members().has(author)
    if (!isMember || heads.length > 1 || heads[0].issuer !== device.identity.id) {
      const { noise, label, extensions } = request
      const newcomer = since => this.record({ signing: bytesOf(author), id: author, noise, label, capabilities, since, extensions })
      this.issue(tx, holding, (members, bans, version) => isMember || members.set(author, newcomer(version)), [author])
    }
    this.tell(tx, holding, author, this.welcome(holding))
  }

  /** Its manifest, the last one that all others follow, and what lies between; the last alone where that is too much. */
  welcome(holding) {
    const last = holding.newest()
    const all = holding.manifestsFrom(holding.graph.settled().version)
    return holding.holdsAll(all, last) ? all : holding.manifestsFrom(last.version)
  }

  tell(tx, holding, to, body) {
    this.device.links.queue(tx, { to, groupId: holding.groupId, type: 'GROUP_MANIFEST', body })
  }

  // Changing a group (section 35)

  remove(holding, id) {
    const tx = this.device.links.transaction()
    if (!holding.members().has(id)) throw new Refused('local', `no member: ${id}`)
    this.issue(tx, holding, members => members.delete(id))
    if (id !== this.device.identity.id) this.vouch(tx, holding)
    tx.commit()
    this.device.after()
  }

  /** *Rotation*: the new secret is stored before any manifest names its key; the old one opens what is on its way. */
  rotate() {
    const { device } = this
    const { identity, store } = device
    if (identity.noise.length > 1) throw new Refused('local', 'a retired key is kept still')
    const { signing, noise } = store.get('identity')
    store.commit([['identity', { signing, noise: [hexOf(crypto.randomBytes(32)), ...noise], rotatedAt: device.now() }]])
    device.readNoise()
    for (const holding of device.holdings.values()) {
      if (!holding.isMember) continue
      const tx = device.links.transaction()
      this.issue(tx, holding, members => members.set(identity.id, { ...members.get(identity.id), noise: identity.noise[0].public }))
      tx.commit()
    }
  }

  /** Wipes a retired key once all others have its successor's manifest, and an hour later at the soonest. */
  wipe() {
    const { identity, store, links } = this.device
    const { signing, noise, rotatedAt } = store.get('identity')
    if (noise.length < 2 || this.device.now() - rotatedAt < RETIRED_MS) return
    for (const [, entry] of links.waiting()) if (entry.type === 'GROUP_MANIFEST') return
    const listed = [...this.device.holdings.values()].map(holding => holding.members().get(identity.id)?.noise)
    if (listed.some(each => each && !each.equals(identity.noise[0].public))) return
    store.commit([['identity', { signing, noise: noise.slice(0, 1) }]])
    this.device.readNoise()
  }

  /**
   * Issues the next manifest: `change` alters the members and bans that hold, given its version.
   * It goes to everybody whom it or one of the manifests that it follows lists, except `others`, who get it otherwise.
   */
  issue(tx, holding, change, others = []) {
    const { raw, followed, secret } = draft(holding.graph, this.device.identity, change, crypto.randomBytes(32))
    const { taken } = holding.takeManifests(tx, [raw], secret ? [secret] : [])
    if (!taken) throw new Refused('local', 'the group does not let this device make that change')
    this.spread(tx, holding, raw, followed, secret, others)
  }

  spread(tx, holding, raw, followed, secret, others) {
    const listed = readManifest(raw).members.map(member => member.id)
    const rivals = followed.length > 1 ? followed.map(head => head.raw) : []
    const recipients = new Set([...listed, ...followed.flatMap(head => head.members.map(member => member.id))])
    for (const to of recipients) {
      if (to === this.device.identity.id || others.includes(to)) continue
      this.tell(tx, holding, to, encode([[...rivals, raw], secret && listed.includes(to) ? [secret] : []]))
    }
    this.device.say({ event: 'members', group: holding.id, members: [...holding.members().keys()], conflict: !holding.graph.current() })
  }

  /** Section 23, *Writing*: who removes a member says by a merge what it knew. */
  vouch(tx, holding) {
    const operation = holding.writeOperation(tx, KINDS.MERGE, encode([]), this.device.now() * 1000)
    for (const to of holding.others()) {
      this.device.links.queue(tx, { to, groupId: holding.groupId, type: 'OPERATIONS', body: holding.operationsBody([operation]) })
    }
  }

  /** A conflict ends by a manifest that follows all heads and lists what holds, if nobody else has issued one by then. */
  look(holding) {
    const { device } = this
    if (!holding.isMember || holding.graph.current()) return this.conflicts.delete(holding.id)
    if (!this.conflicts.has(holding.id)) {
      const own = holding.graph.heads().some(head => head.issuer === device.identity.id)
      this.conflicts.set(holding.id, device.now() + between(own ? OWN_CONFLICT_MS : CONFLICT_MS))
    }
    if (device.now() < this.conflicts.get(holding.id)) return undefined
    this.conflicts.delete(holding.id)
    const tx = device.links.transaction()
    const lists = id => holding.members().has(id)
    const leavesOut = holding.graph.heads().some(head => head.members.some(member => !lists(member.id)))
    this.issue(tx, holding, () => {})
    if (leavesOut) this.vouch(tx, holding)
    return tx.commit()
  }
}

module.exports = { Issuing }
