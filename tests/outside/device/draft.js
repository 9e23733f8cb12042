// Sections 9 and 35: the next manifest of a group, as its issuer writes it.
'use strict'
const { MODES, writeManifest } = require('./manifests.js')
const { blake2b } = require('./primitives.js')

const MAXIMUM_HEADS = 16
const highest = numbers => numbers.reduce((most, each) => (each > most ? each : most))
const byId = (one, other) => (one.id < other.id ? -1 : 1)
const epochIdOf = secret => blake2b(secret, 'covey/1 epoch')

/** M5: the first manifest of a group in which everybody is equal */
function genesis(identity, groupId, founder, secret) {
  return writeManifest(identity.signing, {
    groupId, version: 1n, prev: [], mode: MODES.INVITES_ONLY, invited: null, members: [founder], bans: [], epoch: 1n, epochId: epochIdOf(secret),
    votes: [], issuer: identity.id,
  })
}

/** At most 16: first the issuer's own, then those of members, then the newest */
function headsToFollow(graph, issuer) {
  const { members } = graph.state()
  const rank = head => (head.issuer === issuer ? 0 : members.has(head.issuer) ? 1 : 2)
  const order = (one, other) => rank(one) - rank(other) || (one.version > other.version ? -1 : one.version < other.version ? 1 : 0)
  return graph.heads().sort(order).slice(0, MAXIMUM_HEADS)
}

/**
 * {raw, followed, secret}: what `change` makes of the members and bans that hold, given its version.
 * The epoch is new where somebody goes or several manifests are followed (rule 9): its secret is `fresh`, else null.
 */
function draft(graph, identity, change, fresh) {
  const followed = headsToFollow(graph, identity.id)
  const before = graph.stateOf(followed)
  const [members, bans] = [new Map(before.members), new Map(before.bans)]
  const version = highest(followed.map(head => head.version)) + 1n
  change(members, bans, version)
  const removes = [...before.members.keys()].some(id => !members.has(id)) || [...bans.keys()].some(id => !before.bans.has(id))
  const epoch = highest(followed.map(head => head.epoch)) + (removes || followed.length > 1 ? 1n : 0n)
  const old = followed.find(head => head.epoch === epoch)
  const [{ groupId, mode, invited }] = followed
  const raw = writeManifest(identity.signing, {
    groupId, version, prev: followed.map(head => head.hash).sort(), mode, invited, members: [...members.values()].sort(byId),
    bans: [...bans.values()].sort(byId), epoch, epochId: old ? old.epochId : epochIdOf(fresh), votes: [], issuer: identity.id,
  })
  return { raw, followed, secret: old ? null : fresh }
}

module.exports = { draft, epochIdOf, genesis }
