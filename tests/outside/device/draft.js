// Sections 9 and 35: the next manifest of a group, as its issuer writes it.
'use strict'
const { MEMBER_ALLOWANCE, isExempt, pages } = require('./groups.js')
const { FOUNDER_ALLOWANCE, MODES, writeManifest } = require('./manifests.js')
const { blake2b } = require('./primitives.js')

const MAXIMUM_HEADS = 16
const PART = 1024
const LEAST = 256
const highest = numbers => numbers.reduce((most, each) => (each > most ? each : most))
const byId = (one, other) => (one.id < other.id ? -1 : 1)
const epochIdOf = secret => blake2b(secret, 'covey/1 epoch')

/** M5: the first manifest of a group in which everybody is equal */
function genesis(identity, groupId, founder, secret) {
  return writeManifest(identity.signing, {
    groupId, version: 1n, prev: [], mode: MODES.INVITES_ONLY, invited: null, members: [{ ...founder, allowance: FOUNDER_ALLOWANCE }], bans: [], epoch: 1n, epochId: epochIdOf(secret),
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

/** *Allowances*: how much a member gives to each device that it lets in */
const partOf = (left, count) =>
  Math.min(MEMBER_ALLOWANCE, Math.floor(left / (4 * count)), Math.max(Math.floor(left / PART), LEAST))

/** *Allowances*: the members with what the issuer gives to those that it lets in, and with what it has left */
function paid(before, members, mode, issuer, write) {
  const payer = before.members.get(issuer)
  if (!payer || !members.has(issuer)) return members
  const listed = new Map(members)
  let left = payer.allowance
  const newcomers = [...members.keys()].filter(id => !before.members.has(id))
  const most = isExempt(mode, payer) ? MEMBER_ALLOWANCE : partOf(left, newcomers.length)
  for (const id of newcomers) {
    const allowance = members.get(id).capabilities.includes('board') ? 0 : most
    listed.set(id, { ...members.get(id), allowance })
    left -= allowance
  }
  if (isExempt(mode, payer)) return listed
  left -= pages(write(listed).length) * (1 + newcomers.length)
  return listed.set(issuer, { ...listed.get(issuer), allowance: Math.max(0, left) })
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
  const write = listed => writeManifest(identity.signing, {
    groupId, version, prev: followed.map(head => head.hash).sort(), mode, invited, members: [...listed.values()].sort(byId),
    bans: [...bans.values()].sort(byId), epoch, epochId: old ? old.epochId : epochIdOf(fresh), votes: [], issuer: identity.id,
  })
  const raw = write(paid(before, members, mode, identity.id, write))
  return { raw, followed, secret: old ? null : fresh }
}

module.exports = { draft, epochIdOf, genesis }
