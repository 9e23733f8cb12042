// Section 24: how this device finds out what it and others lack, and asks for it or gives it.
'use strict'
const { encode } = require('./cbor.js')
const heads = require('./heads.js')
const { hexOf } = require('./manifests.js')

const ASK_MS = 15000
const HEADS_MS = [500, 3000]

class Comparing {
  constructor(device) {
    Object.assign(this, { device, asked: new Map() })
  }

  /** Another one's heads differ from ours: a HEADS goes to it in a while, if they differ still. */
  compare(author, theirs) {
    if (!this.device.shared(author).length || heads.agree(this.device.sharedWith(author), theirs)) return
    if (!this.mayAsk('HEADS', author)) return
    const wait = HEADS_MS[0] + Math.random() * (HEADS_MS[1] - HEADS_MS[0])
    setTimeout(() => heads.agree(this.device.sharedWith(author), theirs) || this.sendHeads(author), wait)
  }

  /** One request of a kind to one device in a while, and less often where that brings nothing */
  mayAsk(kind, to) {
    const name = kind + to
    const { at = 0, wait = ASK_MS } = this.asked.get(name) ?? {}
    if (this.device.now() < at + wait && at) return false
    this.asked.set(name, { at: this.device.now(), wait: Math.min(3600000, at ? 2 * wait : ASK_MS) })
    return true
  }

  helped(...kinds) {
    for (const name of [...this.asked.keys()]) if (kinds.some(kind => name.startsWith(kind))) this.asked.delete(name)
  }

  sendHeads(to, answer = false) {
    const named = [...this.device.holdings.values()].filter(holding => holding.members().has(to))
    const rows = named.map(holding => [holding.groupId, holding.newest().version, holding.headDigest(), holding.historyDigest()])
    this.device.publish(to, this.device.links.write('HEADS', to, this.device.sharedWith(to), encode([answer, rows])))
  }

  takeHeads(tx, author, { answer, groups }) {
    let tell = answer
    const named = new Map(groups.map(group => [hexOf(group.groupId), group]))
    for (const holding of this.device.shared(author)) {
      const theirs = named.get(holding.id)
      if (!theirs) {
        tell = true
        continue
      }
      const own = holding.newest().version
      const version = BigInt(theirs.version)
      const differ = !theirs.manifests.equals(holding.headDigest())
      if (version > own || (version === own && differ)) this.pull(tx, holding, author, version > own ? own + 1n : own)
      if (version < own || (version === own && differ)) tell = true
      if (theirs.history && !theirs.history.equals(holding.historyDigest())) {
        this.pullHistory(tx, holding, author)
        tell = true
      }
    }
    for (const [id] of named) this.tellRemoved(tx, this.device.holdings.get(id), author)
    if (tell && this.mayAsk('ANSWER', author)) this.sendHeads(author)
  }

  /** Rule 3: who was removed, and has not heard of it, is sent the manifests up to its removal. */
  tellRemoved(tx, holding, author) {
    if (!holding?.graph || !holding.isMember || holding.members().has(author)) return
    const removal = holding.graph.masks.find(entry => entry.prev.length && !entry.members.some(member => member.id === author)
      && entry.prev.some(hash => holding.graph.get(hash)?.members.some(member => member.id === author)))
    if (removal && this.mayAsk('REMOVED', author)) {
      this.device.links.queue(tx, { to: author, groupId: holding.groupId, type: 'GROUP_MANIFEST', body: holding.manifestsFrom(0n, removal) })
    }
  }

  pull(tx, holding, to, version) {
    if (this.mayAsk('PULL', to)) this.device.links.queue(tx, { to, groupId: holding.groupId, type: 'GROUP_PULL', body: encode([version]) })
  }

  pullHistory(tx, holding, to) {
    if (this.mayAsk('HISTORY', to)) this.device.links.queue(tx, { to, groupId: holding.groupId, type: 'HISTORY_PULL', body: holding.pullBody() })
  }
}

module.exports = { Comparing }
