// Section 35: which manifests hold. `stateOf` is the document's pseudo-code, by its line numbers.
'use strict'
const { Refused, encode, limit, malformed } = require('./cbor.js')
const { MAXIMUM_MEMBERS, MODES, hexOf, memberFields, readManifest, readVote } = require('./manifests.js')

const MAXIMUM_HEADS = 16
const MAXIMUM_LISTED_BYTES = 261120
const SELF_JOINED_MEMBERS = 900
const KNOWN_RULES = 1
const PAGE_BYTES = 4096
const MEMBER_ALLOWANCE = 262144
const STRANGER_ALLOWANCE = 256
const RESERVED_PAGES = 16
const RESERVED_REMOVALS = 4
const [BAN, UNBAN, KEEP_OUT] = [0, 1, 2]

const byId = list => new Map(list.map(each => [each.id, each]))
const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0)
const byVersion = (one, other) => compare(one.version, other.version) || compare(one.hash, other.hash)
const encoded = value => hexOf(encode(value))
const FIELDS = ['noise', 'label', 'role', 'capabilities', 'extensions']
const changed = (one, other) => FIELDS.filter(field => encoded(one[field]) !== encoded(other[field]))

/** {members, bans}: maps by hex key */
const listedBy = manifest => ({ members: byId(manifest.members), bans: byId(manifest.bans) })
/** Two lists that differ only by allowances list the same. */
const sameState = (one, other) => {
  const text = ({ members, bans }) =>
    encoded([
      [...members.values()].sort((a, b) => compare(a.id, b.id)).map(member => memberFields({ ...member, allowance: 0 })),
      [...bans.values()].sort((a, b) => compare(a.id, b.id)).map(ban => [ban.target, ban.since]),
    ])
  return text(one) === text(other)
}

/** What a manifest changes of the state before it */
function changeOf(before, manifest) {
  const after = listedBy(manifest)
  const added = manifest.members.filter(member => !before.members.has(member.id))
  const removed = [...before.members.keys()].filter(id => !after.members.has(id))
  const banned = manifest.bans.filter(ban => !before.bans.has(ban.id))
  const unbanned = [...before.bans.keys()].filter(id => !after.bans.has(id))
  const altered = manifest.members
    .filter(member => before.members.has(member.id))
    .map(member => ({ member, fields: changed(before.members.get(member.id), member) }))
    .filter(({ fields }) => fields.length)
  const [was, is] = [before.members.get(manifest.issuer), after.members.get(manifest.issuer)]
  const spent = was && is ? was.allowance - is.allowance : 0
  return { added, removed, banned, unbanned, altered, spent, adds: byId(added), removes: new Set([...removed, ...banned.map(ban => ban.id)]) }
}

/** *Allowances*: how many pages a manifest of that many bytes has */
const pages = length => Math.ceil(length / PAGE_BYTES)
/** ...how many its issuer keeps for removals */
const reserve = length => RESERVED_PAGES + RESERVED_REMOVALS * pages(length)
/** ...whether a member pays nothing */
const isExempt = (mode, member) => (mode === MODES.ADMIN_INVITES || mode === MODES.PUBLIC) && member.role === 1
/** ...whether a manifest does nothing but remove members */
const onlyRemoves = (before, { added, removed, banned, unbanned, altered }) =>
  removed.length > 0 && !added.length && !unbanned.length && !altered.length && banned.every(({ id }) => before.members.has(id))

/** *Allowances*, of rivals: what is left to each device after all steps, in order */
function allowancesAfter(base, steps, counting) {
  const left = new Map([...base.members].map(([id, member]) => [id, member.allowance]))
  for (const step of steps) {
    const suffices = (left.get(step.issuer) ?? 0) >= step.change.spent
    if (left.has(step.issuer)) left.set(step.issuer, Math.max(0, left.get(step.issuer) - step.change.spent))
    if (counting.has(step)) for (const { id, allowance } of step.change.added) left.set(id, suffices ? allowance : 0)
  }
  return left
}

class Graph {
  constructor() {
    this.entries = new Map() // by hash, in the order in which they were taken
    this.masks = [] // entries by the number of their bit in `ancestors`
    this.states = new Map()
    this.groupId = null
  }

  get(hash) {
    return this.entries.get(hash)
  }

  follows(one, other) {
    return Boolean((one.ancestors >> BigInt(other.bit)) & 1n)
  }

  comparable(one, other) {
    return one === other || this.follows(one, other) || this.follows(other, one)
  }

  heads(among = [...this.entries.values()]) {
    const followed = new Set(among.flatMap(entry => entry.prev))
    return among.filter(entry => !followed.has(entry.hash))
  }

  /** The entries named and all that they follow */
  closure(tips) {
    let mask = 0n
    for (const tip of tips) mask |= tip.ancestors | (1n << BigInt(tip.bit))
    return this.masks.filter(entry => (mask >> BigInt(entry.bit)) & 1n)
  }

  isOpen(entry) {
    return entry.prev.some(hash => !this.entries.has(hash))
  }

  take(manifest) {
    let ancestors = 0n
    for (const hash of manifest.prev) {
      const before = this.entries.get(hash)
      if (before) ancestors |= before.ancestors | (1n << BigInt(before.bit))
    }
    const entry = { ...manifest, bit: this.masks.length, ancestors }
    this.entries.set(entry.hash, entry)
    this.masks.push(entry)
    this.groupId = entry.groupId
    return entry
  }

  /** Rule 4: whether hashes lead to this older manifest; those that follow it then gain what it follows. */
  believe(manifest) {
    if (this.entries.has(manifest.hash) || !this.masks.some(entry => entry.prev.includes(manifest.hash))) return false
    const order = [...this.masks, manifest].sort((one, other) => compare(one.version, other.version))
    this.entries.clear()
    this.masks = []
    this.states.clear()
    for (const each of order) this.take(each)
    return true
  }

  stateBefore(manifest) {
    return this.stateOf(manifest.prev.map(hash => this.entries.get(hash)))
  }

  /** Null where something between M and the tips is not here */
  stateOf(tips) {
    const name = tips.map(tip => tip.hash).sort().join()
    if (!this.states.has(name)) this.states.set(name, this.judge(this.closure(tips)))
    return this.states.get(name)
  }

  judge(set) {
    const spine = set.filter(one => set.every(other => this.comparable(one, other))) // 2
    if (!spine.length) return null
    const M = spine.sort(byVersion).at(-1)
    const base = listedBy(M)
    const steps = set.filter(each => this.follows(each, M)) // 4
    for (const step of steps) {
      if (this.isOpen(step)) return null
      const before = this.stateBefore(step)
      if (!before) return null
      step.before = before
      step.change = changeOf(before, step)
    }
    const counting = new Verdict(this, base, steps).counting
    const state = this.write(base, counting)
    const left = allowancesAfter(base, [...steps].sort(byVersion), counting)
    for (const [id, member] of state.members) state.members.set(id, { ...member, allowance: Math.min(member.allowance, left.get(id) ?? 0) })
    return state
  }

  write(base, counting) {
    const order = [...counting].sort(byVersion)
    const bans = new Map([...base.bans].filter(([id]) => !order.some(step => step.change.unbanned.includes(id)))) // 35
    for (const step of order) {
      for (const ban of step.change.banned) {
        const ended = order.some(later => this.follows(later, step) && later.change.unbanned.includes(ban.id))
        if (!ended && bans.size + !bans.has(ban.id) <= MAXIMUM_MEMBERS) bans.set(ban.id, ban)
      }
    }
    const removals = id => order.filter(step => step.change.removes.has(id))
    const members = new Map([...base.members].filter(([id]) => !bans.has(id) && !removals(id).length)) // 37
    const fits = () => {
      const bytes = encode([[...members.values()].map(memberFields), [...bans.values()].map(ban => [ban.target, ban.since])]).length
      return members.size <= MAXIMUM_MEMBERS && bytes <= MAXIMUM_LISTED_BYTES
    }
    const put = record => {
      for (const other of members.values()) if (other.id !== record.id && other.noise.equals(record.noise)) return // 42
      const before = members.get(record.id)
      members.set(record.id, record)
      if (fits()) return
      before ? members.set(record.id, before) : members.delete(record.id) // 43
    }
    for (const step of order) {
      for (const record of step.change.added) {
        if (!bans.has(record.id) && removals(record.id).every(removal => this.follows(step, removal))) put(record) // 39
      }
      for (const { member, fields } of step.change.altered) { // 41
        for (const field of fields) {
          const present = members.get(member.id)
          if (present) put({ ...present, [field]: member[field], rules: field === 'extensions' ? member.rules : present.rules })
        }
      }
    }
    return { members, bans }
  }

  /** M of all: the last manifest that every other one follows or is followed by */
  settled() {
    return this.masks.filter(one => this.masks.every(other => this.comparable(one, other))).sort(byVersion).at(-1)
  }

  state() {
    return this.stateOf(this.heads())
  }

  /** The manifest that lists just what holds, or null in a conflict */
  current() {
    const heads = this.heads()
    if (heads.length > MAXIMUM_HEADS) return null
    const state = this.stateOf(heads)
    const exact = heads.filter(head => sameState(listedBy(head), state))
    return exact.sort((a, b) => compare(a.version, b.version) || compare(a.epoch, b.epoch) || compare(a.hash, b.hash)).at(-1) ?? null
  }

  /** Rules 2 to 12 for one manifest that is well-formed: 'accepted', 'unchanged', or an exception. */
  offer(manifest) {
    if (this.entries.has(manifest.hash)) return 'unchanged'
    if (!manifest.groupId.equals(this.groupId)) throw new Refused('genesis') // 2
    if (manifest.version === 1n) throw new Refused('genesis') // 3
    const oldest = [...this.entries.values()].sort(byVersion)[0].version
    const followed = manifest.prev.map(hash => this.entries.get(hash))
    if (followed.includes(undefined)) throw new Refused(manifest.version <= oldest ? 'rollback' : 'version_gap') // 5
    if (followed.some(one => followed.some(other => this.follows(one, other)))) throw malformed('prev') // 5
    const highest = followed.map(entry => entry.version).sort(compare).at(-1)
    if (manifest.version !== highest + 1n) throw new Refused('version_gap') // 6
    const [{ mode, invited }] = followed
    if (manifest.mode !== mode || encoded(manifest.invited) !== encoded(invited)) throw malformed('mode') // 7
    const before = this.stateOf(followed)
    if (!before) throw new Refused('version_gap')
    const change = changeOf(before, manifest)
    checkChange(before, change, manifest, followed) // 8
    checkEpoch(change, manifest, followed) // 9
    if (followed.length === 1 && manifest.raw.length > MAXIMUM_LISTED_BYTES) throw limit('listed') // 10
    const lowest = followed.map(entry => entry.rules).sort(compare)[0]
    if (manifest.rules < lowest) throw new Refused('rollback') // 11
    if (manifest.rules > KNOWN_RULES) throw new Refused('unsupported')
    checkPayment(before, change, manifest) // 12
    this.take(manifest)
    return 'accepted'
  }
}

/** Lines 5 to 33: which steps count */
class Verdict {
  constructor(graph, base, steps) {
    Object.assign(this, { graph, base, steps, undecided: new Set(steps), counting: new Set(), void: new Set() })
    while (this.undecided.size) {
      this.settle()
      if (!this.undecided.size) break
      const winner = this.winner(this.circle()) // 13
      const losers = [...this.undecided].filter(step => this.against(step, winner))
      this.decide(winner, this.counting)
      losers.forEach(step => this.decide(step, this.void))
    }
  }

  decide(step, into) {
    this.undecided.delete(step)
    into.add(step)
  }

  settle() {
    for (let moved = true; moved; ) {
      moved = false
      for (const s of [...this.undecided]) {
        const into = this.fate(s)
        if (into) {
          this.decide(s, into)
          moved = true
        }
      }
    }
  }

  fate(s) {
    if ([...this.counting].some(t => this.against(t, s))) return this.void // 8
    if (!this.mayBeMember(s.issuer, s)) return this.void // 9
    if (![...this.undecided].some(t => this.against(t, s)) && this.isMember(s.issuer, s)) return this.counting // 10
    return null
  }

  against(t, s) {
    return t.issuer !== s.issuer && t.change.removes.has(s.issuer) && !this.graph.comparable(t, s)
  }

  letsItselfIn(d, s) {
    return s.mode === MODES.PUBLIC && s.issuer === d && s.change.adds.has(d)
  }

  mayBeMember(d, s) {
    return this.letsItselfIn(d, s) || this.member(d, s, t => !this.void.has(t), t => this.counting.has(t))
  }

  isMember(d, s) {
    return this.letsItselfIn(d, s) || this.member(d, s, t => this.counting.has(t), t => !this.void.has(t))
  }

  member(d, s, additions, removals) { // 19
    const them = this.steps.filter(t => this.graph.follows(s, t))
    const R = them.filter(t => removals(t) && t.change.removes.has(d))
    if (this.base.members.has(d) && !R.length) return true
    return them.some(t => additions(t) && t.change.adds.has(d) && R.every(r => this.graph.follows(t, r)))
  }

  hangsOn(s) { // 24, 25
    const waits = !this.isMember(s.issuer, s)
    return [...this.undecided].filter(
      t => this.against(t, s) || (waits && this.graph.follows(s, t) && (t.change.adds.has(s.issuer) || t.change.removes.has(s.issuer))),
    )
  }

  /** Steps of which each reaches all others, and none reaches any outside of them */
  circle() {
    const reached = new Map()
    for (const s of this.undecided) {
      const seen = new Set()
      const open = [s]
      while (open.length) {
        for (const t of this.hangsOn(open.pop())) {
          if (!seen.has(t)) {
            seen.add(t)
            open.push(t)
          }
        }
      }
      reached.set(s, seen)
    }
    for (const [s, seen] of reached) if (seen.has(s) && [...seen].every(t => reached.get(t).has(s))) return [...seen]
    throw new Error('no circle among undecided steps')
  }

  winner(C) {
    const A = C.filter(s => C.some(t => this.against(s, t))) // 27
    const first = A.filter(s => !A.some(t => this.graph.follows(s, t)))
    const known = [...first[0].before.members.keys()].filter(id => first.every(s => s.before.members.has(id))) // 28
    const rank = s => [
      Number(!known.includes(s.issuer)), // 30
      known.filter(id => id !== s.issuer && this.steps.some(t => t.issuer === id && t.change.removes.has(s.issuer))).length, // 31
      s.before.members.get(s.issuer)?.since ?? s.version, // 32
      s.issuer, s.version, s.hash, // 33
    ]
    return A.map(s => [rank(s), s]).sort(([one], [other]) => one.reduce((sum, part, n) => sum || compare(part, other[n]), 0))[0][1]
  }
}

const notAllowed = () => new Refused('not_allowed')

/** Rule 8: *Modes and votes* */
function checkChange(before, change, manifest, followed) {
  const { mode, issuer, members, bans, version, invited } = manifest
  const { added, removed, banned, unbanned, altered } = change
  const actor = before.members.get(issuer)
  const letsItselfIn = mode === MODES.PUBLIC && !actor && change.adds.has(issuer)
  if ((!actor && !letsItselfIn) || actor?.capabilities.includes('board')) throw new Refused('unknown_issuer')
  for (const [listed, held] of [[members, before.members], [bans, before.bans]]) {
    for (const { id, since } of listed) if (since !== (held.get(id)?.since ?? version)) throw malformed('since')
  }
  const nothing = !added.length && !removed.length && !banned.length && !unbanned.length && !altered.length
  if (letsItselfIn) {
    const [itself] = added
    if (added.length > 1 || removed.length || banned.length || unbanned.length || altered.length) throw notAllowed()
    if (itself.role || itself.capabilities.length) throw notAllowed()
    if (before.members.size >= SELF_JOINED_MEMBERS) throw limit('self-joined members')
    return checkVotes(before, manifest, change, followed)
  }
  for (const { member, fields } of altered) {
    if (member.id !== issuer && (fields.includes('noise') || fields.includes('extensions'))) throw notAllowed()
  }
  const leaves = removed.length === 1 && removed[0] === issuer && !added.length && !banned.length && !unbanned.length && !altered.length
  const roles = [...added.filter(member => member.role), ...altered.filter(({ fields }) => fields.includes('role'))]
  switch (mode) {
    case MODES.ONE_TO_ONE:
      if (added.some(member => member.id !== hexOf(invited)) || altered.some(({ member }) => member.id !== issuer)) throw notAllowed()
      if (!leaves && (removed.length || banned.length || unbanned.length)) throw notAllowed()
      break
    case MODES.INVITES_ONLY:
    case MODES.PERSONAL:
      if (roles.length) throw notAllowed()
      break
    default:
      if (leaves) break
      if (removed.some(id => !banned.some(ban => ban.id === id))) throw notAllowed()
      if (altered.some(({ member, fields }) => fields.includes('role') && !member.role)) throw notAllowed()
      if (!actor.role) {
        const ofAdmins = fields => fields.includes('role') || fields.includes('capabilities')
        const own = altered.every(({ member, fields }) => member.id === issuer && !ofAdmins(fields))
        const renewal = nothing && followed.length === 1 && manifest.epoch > followed[0].epoch
        if (added.length || banned.length || unbanned.length || !own || renewal) throw notAllowed()
      }
  }
  checkVotes(before, manifest, change, followed)
}

function checkVotes(before, manifest, { banned, unbanned }, followed) {
  if (manifest.mode !== MODES.ADMIN_INVITES && manifest.mode !== MODES.PUBLIC) return
  const votes = manifest.votes.map(readVote)
  const isAdmin = id => before.members.get(id)?.role === 1
  if (votes.some(vote => !isAdmin(vote.voter) || vote.voter === vote.target)) throw new Refused('vote')
  const admins = [...before.members.values()].filter(member => member.role).length
  const epoch = followed.map(entry => entry.epoch).sort(compare).at(-1)
  const needed = [
    ...banned.map(({ id }) => (before.members.has(id) ? [BAN, id, before.members.get(id).since] : [KEEP_OUT, id, epoch])),
    ...unbanned.map(id => [UNBAN, id, before.bans.get(id).since]),
  ]
  for (const [action, target, since] of needed) {
    const voters = new Set(
      votes
        .filter(vote => vote.groupId.equals(manifest.groupId) && vote.action === action && vote.target === target && vote.since === since)
        .map(vote => vote.voter),
    )
    if (2 * voters.size <= admins || !voters.has(manifest.issuer)) throw new Refused('vote')
  }
}

/** Rule 12: *Allowances* */
function checkPayment(before, change, manifest) {
  const { issuer, mode, members, votes, raw } = manifest
  const { added, removed, spent } = change
  for (const { id, allowance } of members) {
    if (id !== issuer && before.members.has(id) && before.members.get(id).allowance !== allowance) throw malformed('allowance')
  }
  const payer = before.members.get(issuer)
  if (!payer || removed.includes(issuer)) {
    if (votes.length) throw malformed('votes')
    if (added.some(({ allowance }) => allowance > STRANGER_ALLOWANCE)) throw limit('allowance')
    return
  }
  if (isExempt(mode, payer)) {
    if (spent) throw malformed('allowance')
    if (added.some(({ allowance }) => allowance > MEMBER_ALLOWANCE)) throw limit('allowance')
    return
  }
  const given = added.reduce((sum, { allowance }) => sum + allowance, 0)
  if (spent < pages(raw.length) * (1 + added.length) + given) throw limit('payment')
  if (payer.allowance - spent < (onlyRemoves(before, change) ? 0 : reserve(raw.length))) throw limit('allowance')
}

/** Rule 9 */
function checkEpoch({ added, removed, banned, unbanned, altered }, manifest, followed) {
  const highest = followed.map(entry => entry.epoch).sort(compare).at(-1)
  const { epoch, epochId } = manifest
  if (epoch < highest) throw new Refused('rollback')
  const must = removed.length || banned.length || followed.length > 1
  const may = must || !(added.length || unbanned.length || altered.length)
  if (epoch > highest + 1n || (must && epoch === highest) || (!may && epoch > highest)) throw malformed('epoch')
  const old = followed.some(entry => entry.epochId.equals(epochId))
  if (old !== (epoch === highest)) throw malformed('epoch id')
}

/** A group as a device holds it: null until a manifest that it may begin with has come (rules 3 and 4). */
class Group {
  constructor({ groupId = null, join = null } = {}) {
    Object.assign(this, { groupId, join, graph: null })
  }

  static of(manifest) {
    const group = new Group({ groupId: manifest.groupId })
    group.graph = new Graph()
    group.graph.take(manifest)
    return group
  }

  offer(raw) {
    const manifest = readManifest(raw)
    if (this.graph) return this.graph.offer(manifest)
    const { join } = this
    if (!join || (this.groupId && !manifest.groupId.equals(this.groupId))) throw new Refused('genesis')
    const own = manifest.members.find(member => member.id === join.device)
    const listed = own && join.noise.some(noise => noise.equals(own.noise))
    if (manifest.issuer !== join.inviter || !listed) throw new Refused('invite')
    if (manifest.rules > KNOWN_RULES) throw new Refused('unsupported')
    this.groupId = manifest.groupId
    this.graph = new Graph()
    this.graph.take(manifest)
    return 'accepted'
  }
}

/** A chain of manifests from its genesis on */
function checkChain(raws) {
  if (!raws.length) throw malformed('no chain')
  const manifests = raws.map(readManifest)
  if (manifests[0].version !== 1n) throw new Refused('genesis')
  const group = Group.of(manifests[0])
  for (const raw of raws.slice(1)) if (group.offer(raw) !== 'accepted') throw new Refused('rollback')
  return group
}

module.exports = { Graph, Group, MEMBER_ALLOWANCE, changeOf, checkChain, compare, isExempt, listedBy, pages, sameState }
