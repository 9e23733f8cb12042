#!/usr/bin/env node
// Checks this device against the vectors of its roles (section 17): sensor and member.
'use strict'
const { Refused, decode, encode } = require('./cbor.js')
const { Count, octets } = require('./check.js')
const { judgeCheckpoints, readHistoryGraph } = require('./checkpoints.js')
const envelopes = require('./envelopes.js')
const { Group, checkChain } = require('./groups.js')
const { History, readBody, readHistoryPull, readOperation, readOperations, writeOperation } = require('./history.js')
const invites = require('./invites.js')
const { hexOf, readManifest, readRevoke, readVote, writeManifest } = require('./manifests.js')
const messages = require('./messages.js')
const orders = require('./orders.js')
const { personalState, planOf, readPlan } = require('./personal.js')
const primitives = require('./primitives.js')
const rendezvous = require('./rendezvous.js')
const { Spake2 } = require('./spake2.js')
const { readSummary, readTelemetry, writeTelemetry } = require('./telemetry.js')
const vault = require('./vault.js')

const count = new Count()
const hex = text => Buffer.from(text, 'hex')
const noiseSecret = (file, name) => hex(file.keys[name].noise_secret)
const seedOf = (file, key) => hex(Object.values(file.keys).find(each => each.signing_public === key).signing_seed)
const publicKey = (file, name) => file.keys[name].signing_public

function checkCbor() {
  for (const entry of count.in('cbor').vectors) {
    const bytes = octets(entry, 'bytes')
    count.entry(entry, () => decode(bytes), value => [encode(value), bytes])
  }
}

function checkEnvelopes() {
  const file = count.in('envelopes')
  for (const entry of file.vectors) {
    const envelope = octets(entry, 'bytes')
    count.entry(entry, () => envelopes.open(envelope, [noiseSecret(file, entry.recipient)]).message, message => {
      if (!entry.nonce) return undefined
      const noise = hex(file.keys[entry.recipient].noise_public)
      const again = envelopes.seal(octets(entry, 'message'), noise, hex(entry.ephemeral_secret), hex(entry.nonce))
      return [[message, again], [octets(entry, 'message'), envelope]]
    })
  }
  for (const entry of file.for_signing_keys) {
    const secret = envelopes.sealingSecret(hex(file.keys[entry.recipient].signing_seed))
    count.entry(entry, () => envelopes.open(octets(entry, 'bytes'), [secret]).message, message => [message, entry.message])
  }
  for (const [length, padded] of file.padded) count.one(`${length} padded`, () => [envelopes.padded(length), padded])

  const links = count.in('link_envelopes')
  const linkKey = tag => (hexOf(tag) === links.tag ? hex(links.key) : null)
  for (const entry of links.vectors) {
    const envelope = octets(entry, 'bytes')
    count.entry(entry, () => envelopes.open(envelope, [], linkKey).message, message => {
      if (!('counter' in entry)) return undefined
      const again = envelopes.sealByLink(octets(entry, 'message'), hex(links.tag), hex(links.key), BigInt(entry.counter))
      return [[message, again], [octets(entry, 'message'), envelope]]
    })
  }
  for (const entry of links.links) {
    count.entry(entry, () => messages.readLink(octets(entry, 'bytes')), found => {
      const { boot_id, monotonic_us, wall_us, names } = entry.batch ?? {}
      return [found, [entry.tag, entry.key, ...entry.named, ...(boot_id ? [boot_id, monotonic_us, wall_us, names] : [])]]
    })
  }
  for (const entry of links.shorts) {
    const [raw, author, recipient, groupId, incarnation] = ['bytes', 'author', 'recipient', 'group', 'incarnation'].map(name => octets(entry, name))
    const batch = { bootId: octets(entry, 'boot_id'), monotonic: entry.monotonic_us, wall: entry.wall_us, names: octets(entry, 'names') }
    const read = () => messages.readMessage(messages.restored(raw, { author, groupId, incarnation, batch }, recipient))
    count.entry(entry, read, message => [message.raw, octets(entry, 'message')])
  }
  for (const entry of links.notes) {
    const raw = octets(entry, 'bytes')
    count.entry(entry, () => messages.readNote(raw, Buffer.alloc(32), Buffer.alloc(32)), ({ number, groupId, body }) => [
      [number, groupId, body, ...(entry.name === 'an odd key' ? [] : [messages.writeNote(messages.NAMES.get(number), groupId, body)])],
      [entry.type, entry.heads, entry.body, ...(entry.name === 'an odd key' ? [] : [raw])],
    ])
  }
}

function checkMessages() {
  const file = count.in('messages')
  for (const entry of file.vectors) {
    const raw = octets(entry, 'bytes')
    const take = () => {
      const message = messages.readMessage(raw)
      if (message.unsupported) throw new Refused('unsupported')
      return message
    }
    count.entry(entry, take, message => {
      const { type, author, recipient, groupId, incarnation, seq, linkSeq, sentAt, body } = message
      const seed = hex(file.keys[entry.author].signing_seed)
      const again = messages.writeMessage(seed, { type, author, recipient, groupId, incarnation, seq, linkSeq, sentAt, body })
      const found = [message.number, author, recipient, groupId, incarnation, seq, linkSeq, sentAt, body, again]
      return [found, [
        entry.type, publicKey(file, entry.author), publicKey(file, entry.recipient), entry.group_id, entry.incarnation, entry.seq,
        entry.link_seq, entry.sent_at_us, entry.body, raw,
      ]]
    })
  }
  for (const entry of file.acknowledgements) {
    count.entry(entry, () => messages.readAcknowledgement(octets(entry, 'bytes')), ({ incarnation, received }) => [
      [incarnation, [received.upto, received.ranges]], [entry.incarnation, entry.received],
    ])
  }
  for (const entry of file.imprints) {
    count.entry(entry, () => messages.readAcknowledgement(octets(entry, 'bytes')), ({ imprints }) => [imprints, entry.imprints])
  }
  for (const entry of file.losses) {
    count.entry(entry, () => messages.readLoss(octets(entry, 'bytes')), ({ reason, places, numbers, earlier }) => [
      [reason, places, numbers, ...(earlier ? [earlier] : [])], entry.loss,
    ])
  }
  for (const entry of file.forwards) {
    count.entry(entry, () => messages.readForward(octets(entry, 'bytes')), found => [found, [publicKey(file, entry.to), entry.envelope]])
  }
  for (const entry of file.ephemerals) {
    count.entry(entry, () => messages.readEphemeral(octets(entry, 'bytes')), found => [found, [entry.said_at_us, entry.content]])
  }
}

function checkPresences() {
  const file = count.in('presences')
  for (const entry of file.vectors) count.entry(entry, () => messages.readPresence(messages.readMessage(octets(entry, 'bytes')).body))
  for (const entry of file.bodies) {
    count.entry(entry, () => messages.readPresence(octets(entry, 'bytes')), ({ counter, state, interval, connections, cost }) => [
      [[counter, state, interval, connections], cost], [entry.presence, entry.cost],
    ])
  }
  for (const story of file.stories) {
    count.one(story.name, () => {
      const kept = new messages.Presences()
      const holds = story.presences.map(({ bytes }) => kept.take(messages.readPresence(hex(bytes))))
      return [[holds, kept.condition], [story.presences.map(each => each.holds), story.condition]]
    })
  }
}

function checkHeads() {
  const file = count.in('heads')
  const { digestOf, sharedHeads, agree } = require('./heads.js')
  for (const entry of file.digests) count.one(entry.name, () => [digestOf(entry.heads.map(hex), 'covey/1 heads'), entry.digest])
  for (const entry of file.histories) count.one(entry.name, () => [digestOf(entry.heads.map(hex), 'covey/1 op heads'), entry.digest])
  for (const entry of file.shared) {
    const groups = entry.groups.map(([id, manifests, history]) => [hex(id), hex(manifests), history === null ? null : hex(history)])
    count.one(entry.name, () => [sharedHeads(groups), entry.shared])
  }
  for (const entry of file.agreements) count.one(entry.name, () => [agree(hex(entry.one), hex(entry.other)), entry.agree])
  for (const entry of file.bodies) {
    count.entry(entry, () => messages.readHeads(octets(entry, 'bytes')), ({ answer, groups, tags, opens }) => {
      const spelled = groups.map(each => [each.groupId, each.version, each.manifests, ...(each.history ? [each.history] : [])])
      return [[answer, spelled, ...(tags || opens ? [tags] : []), ...(opens ? [opens] : [])], entry.report]
    })
  }
}

function checkInvites() {
  const file = count.in('invites')
  for (const entry of file.vectors) {
    const again = invite => (invite.rendezvous === null && !invite.operators.length && !invite.addresses.length ? invites.writeInvite(invite) : entry.text)
    count.entry(entry, () => invites.readInvite(entry.text), invite => [
      [again(invite), invite.groupId, invite.inviter, invite.noise, invite.secret, invites.inviteId(invite.secret), invite.expiresAt, invite.relayUrl,
        invite.rendezvous, invite.enrolment, invite.operators, invite.addresses],
      [entry.text, entry.group_id, publicKey(file, entry.inviter), file.keys[entry.inviter].noise_public, entry.secret, entry.secret_hash,
        entry.expires_at_us, entry.relay_url, entry.rendezvous, entry.enrolment, entry.operators.map(name => file.keys[name]?.signing_public ?? name), entry.addresses],
    ])
  }
  for (const entry of file.requests) {
    count.entry(entry, () => messages.readJoin(octets(entry, 'bytes')), ({ secret, noise, label }) => [
      [secret, noise, label], [entry.secret, entry.noise_public, entry.label],
    ])
  }
  for (const entry of file.group_invites) {
    count.entry(entry, () => invites.readGroupInvite(octets(entry, 'bytes')), ({ secret, noise, expiresAt, preview }) => [
      [secret, noise, expiresAt, preview[0], preview[1], preview[2].map(each => each[1]), preview[3], preview[4]],
      [entry.secret, entry.noise_public, entry.expires_at_us, entry.preview.title, entry.preview.count, entry.preview.labels,
        entry.preview.description, entry.preview.picture],
    ])
  }
  for (const entry of file.invite_requests) {
    count.entry(entry, () => invites.checkInviteRequest(octets(entry, 'bytes')), found => [found, true])
  }
}

function checkCeremonies() {
  const file = count.in('ceremonies')
  const { derivation } = file
  const keysOf = name => [file.keys[name].signing_public, file.keys[name].noise_public].map(hex)
  const [inviter, joiner] = [keysOf(derivation.inviter), keysOf(derivation.joiner)]
  const { password, inviter_entropy: x, joiner_entropy: y } = derivation.spake2
  const [one, other] = [[true, x], [false, y]].map(([isInviter, entropy]) => new Spake2(isInviter, hex(password), hex(entropy)))
  const session = rendezvous.sessionOf(other.element, ...joiner)
  const commitment = rendezvous.commitmentOf(session, one.element, ...inviter)
  const derived = new rendezvous.CeremonyKeys(other.finish(one.element), session, commitment)
  count.one('derivation', () => [
    [one.element, other.element, one.finish(other.element), other.finish(one.element), session, commitment, derived.root,
      derived.confirmation(true), derived.confirmation(false), derived.key(true), derived.key(false),
      derived.verifier(Buffer.concat(inviter), Buffer.concat(joiner))],
    [derivation.spake2.inviter_element, derivation.spake2.joiner_element, derivation.spake2.key, derivation.spake2.key, derivation.session,
      derivation.inviter_commitment, derivation.root, derivation.inviter_confirmation, derivation.joiner_confirmation, derivation.inviter_key,
      derivation.joiner_key, derivation.verifier],
  ])
  const { PROOF, FAREWELL, WELCOME, OUTCOME } = rendezvous.KINDS
  for (const entry of file.vectors) {
    count.entry(entry, () => rendezvous.readRendezvous(octets(entry, 'bytes')), message => {
      if (!entry.opened) return undefined
      const isInviter = ![PROOF, FAREWELL].includes(message.kind)
      const opened = derived.open(isInviter, message.kind, message.sealed)
      if (message.kind === PROOF || message.kind === WELCOME) derived.introduced(isInviter, message.kind, message.sealed)
      if (message.kind === OUTCOME) rendezvous.readOutcome(opened)
      return [[opened, derived.seal(isInviter, message.kind, opened)], [entry.opened, message.sealed]]
    })
  }
}

function checkTelemetry() {
  for (const entry of count.in('telemetry').vectors) {
    count.entry(entry, () => readTelemetry(octets(entry, 'bytes')), batch => {
      const series = batch.series.map(({ name, unit, kind, scale, count: many }) => [name, unit, kind, scale, many])
      const found = [batch.number, series, batch.readings, batch.alarm]
      const expected = [entry.number, entry.series, entry.decoded, entry.alarm]
      if (!entry.readings) return [found, expected]
      const { boot_id: bootId, monotonic_us: monotonic, wall_us: wall, kind: clock } = entry.clock
      const again = readTelemetry(writeTelemetry(entry.number, { bootId: hex(bootId), clock, monotonic, wall }, entry.readings))
      const rewritten = again.series.map(({ name, unit, kind, scale, count: many }) => [name, unit, kind, scale, many])
      return [[found, rewritten, again.readings], [expected, entry.series, entry.decoded]]
    })
  }
}

function checkSummaries() {
  for (const entry of count.in('summaries').vectors) {
    count.entry(entry, () => readSummary(octets(entry, 'bytes')), ({ numbers, window, series }) => {
      const found = series.map(({ name, unit, kind, scale, windows }) => [name, unit, kind, scale, windows])
      return [[numbers, window, found], [entry.numbers, entry.window_us, entry.series]]
    })
  }
}

function checkGroupManifests() {
  const file = count.in('group_manifests')
  const named = new Map(file.manifests.map(entry => [entry.name, octets(entry, 'bytes')]))
  const nameOf = id => Object.keys(file.keys).find(name => publicKey(file, name) === id) ?? id
  for (const entry of [...file.manifests, ...file.refused]) {
    count.entry(entry, () => readManifest(octets(entry, 'bytes')), found => [
      [writeManifest(seedOf(file, found.issuer), found), found.hash, found.groupId, found.version, found.prev, found.mode, found.invited,
        found.members.map(member => [member.id, member.noise, member.name, member.label, member.role, member.capabilities, member.since,
          member.allowance]),
        found.epoch, found.epochId, found.votes, found.issuer],
      [octets(entry, 'bytes'), entry.hash, entry.group_id, entry.version, entry.prev, entry.mode, entry.invited,
        entry.members.map(each => [each.signing_public, each.noise_public, each.name, each.label, each.role, each.capabilities, each.since,
          each.allowance]),
        entry.epoch, entry.epoch_id, entry.votes, entry.issuer],
    ])
  }
  const outcome = (group, raw) => {
    try {
      return group.offer(raw)
    } catch (error) {
      return error.code ?? error.stack
    }
  }
  for (const entry of file.trust) {
    count.one(entry.name, () => {
      let group
      if (entry.held) group = Group.of(readManifest(named.get(entry.held)))
      else {
        const { inviter, device } = entry.join ?? {}
        const join = entry.join && { inviter: publicKey(file, inviter), device: publicKey(file, device), noise: [hex(file.keys[device].noise_public)] }
        group = new Group({ groupId: readManifest(named.get('genesis')).groupId, join })
      }
      const outcomes = entry.offers.map(offer => outcome(group, named.get(offer.manifest)))
      const state = group.graph?.state()
      const members = entry.members && [...state.members.keys()].map(nameOf).sort()
      const noise = entry.noise && [state.members.get(publicKey(file, entry.noise.device)).noise]
      const expectedNoise = entry.noise && [
        readManifest(named.get(entry.noise.as_in)).members.find(member => member.id === publicKey(file, entry.noise.device)).noise,
      ]
      const left = Object.keys(entry.allowances ?? {}).map(name => [name, state.members.get(publicKey(file, name)).allowance])
      const conflict = Boolean(group.graph) && group.graph.current() === null
      return [
        [outcomes, members, conflict, noise, left],
        [entry.offers.map(each => each.outcome), entry.members, entry.conflict, expectedNoise, Object.entries(entry.allowances ?? {})],
      ]
    })
  }
  for (const entry of file.chains) count.entry(entry, () => checkChain(entry.chain.map(name => named.get(name))))
  for (const entry of file.agreements) {
    for (const begins of [0, entry.begins]) {
      count.one(`${entry.name} (from ${begins})`, () => {
        const raws = entry.manifests.map(hex)
        const group = Group.of(readManifest(raws[begins]))
        offerAll(group, raws)
        const { members, bans } = group.graph.state()
        const heads = group.graph.heads()
        const epoch = heads.reduce((most, head) => (head.epoch > most ? head.epoch : most), 0n)
        return [
          [[...members.keys()].sort(), [...bans.keys()].sort(), epoch, group.graph.current() === null, heads.map(head => head.hash).sort()],
          [entry.members, entry.banned, entry.epoch, entry.conflict, entry.heads],
        ]
      })
    }
  }
}

/** Offers what waits again as long as that brings something */
function offerAll(group, raws) {
  let waiting = raws
  for (let before = Infinity; waiting.length < before; ) {
    before = waiting.length
    waiting = waiting.filter(raw => {
      try {
        group.offer(raw)
        return false
      } catch (error) {
        if (!['version_gap', 'rollback', 'genesis'].includes(error.code)) throw error
        return !group.graph.believe(readManifest(raw))
      }
    })
  }
}

function checkGroupMessages() {
  const file = count.in('group_messages')
  for (const entry of file.votes) {
    count.entry(entry, () => readVote(octets(entry, 'bytes')), vote => [
      [vote.groupId, vote.action, vote.target, vote.since, vote.voter],
      [entry.group_id, entry.action, publicKey(file, entry.target), entry.since, publicKey(file, entry.voter)],
    ])
  }
  for (const entry of file.revokes) {
    count.entry(entry, () => readRevoke(octets(entry, 'bytes')), revoke => [
      [revoke.groupId, revoke.epoch, revoke.version, revoke.targets, revoke.issuer],
      [entry.group_id, entry.epoch, entry.version, entry.targets.map(name => publicKey(file, name)), publicKey(file, entry.issuer)],
    ])
  }
  for (const entry of file.manifests) {
    count.entry(entry, () => messages.readGroupManifests(octets(entry, 'bytes')), found => [found, [entry.manifests, entry.secrets]])
  }
  for (const entry of file.pulls) count.entry(entry, () => messages.readPull(octets(entry, 'bytes')), found => [found, entry.from_version])
}

function checkHistory() {
  const file = count.in('history')
  const manifests = file.manifests.map(raw => readManifest(hex(raw)))
  for (const entry of file.operations) {
    count.entry(entry, () => readOperation(octets(entry, 'bytes')), found => [
      [writeOperation(seedOf(file, found.author), found), found.id, found.author, found.incarnation, found.number, found.previous, found.parents, found.height, found.manifest, found.madeAt,
        found.kind, found.body],
      [octets(entry, 'bytes'), entry.id, entry.author, entry.incarnation, entry.number, entry.previous, entry.parents, entry.height, entry.manifest, entry.made_at_us,
        entry.kind, entry.body],
    ])
  }
  for (const scenario of file.scenarios) {
    count.one(scenario.name, () => {
      const graph = { get: id => manifests.find(each => each.hash === id), state: () => ({ members: new Map() }) }
      const history = new History(hex(file.group_id), graph)
      const outcome = (raw, followers = []) => {
        try {
          return history.offer(readOperation(hex(raw)), followers)
        } catch (error) {
          if (!(error instanceof Refused)) throw error
          return error.code
        }
      }
      const personal = manifests.find(each => each.mode === 4)
      const last = readOperation(octets(scenario, 'bytes'))
      if (graph.get(last.manifest) === personal) history.groupId = personal.groupId
      const held = scenario.held.map(raw => outcome(raw))
      const found = outcome(scenario.bytes, scenario.follower ? [readOperation(hex(scenario.follower))] : [])
      return [[held, found], [held.map(() => null), scenario.outcome]]
    })
  }
  const listed = file.lines.manifests.map(raw => readManifest(hex(raw)))
  for (const entry of file.lines.cases) {
    count.one(entry.name, () => {
      const history = new History(hex(file.group_id), { get: id => listed.find(each => each.hash === id) })
      return [history.line(entry.author, entry.manifest).map(([level, device, since]) => [level, device, Number(since)]), entry.line]
    })
  }
  const readers = { OPERATIONS: readOperations, HISTORY_PULL: readHistoryPull }
  for (const entry of file.bodies) count.entry(entry, () => readers[entry.type](octets(entry, 'bytes')))
}

function checkOrders() {
  const file = count.in('orders')
  for (const entry of file.bodies) count.entry(entry, () => readBody(entry.kind, octets(entry, 'bytes')))
  for (const entry of file.plans) {
    const body = octets(entry, 'bytes')
    count.entry(entry, () => planOf(hex(entry.author), entry.kind, body, readBody(entry.kind, body)), plan => [plan, entry.plan])
  }
  for (const entry of file.results) count.entry(entry, () => orders.readResult(octets(entry, 'bytes')))
  for (const entry of file.reports) count.entry(entry, () => orders.readReport(octets(entry, 'bytes')))
  for (const entry of file.secrets) {
    const who = decode(hex(entry.selector))
    const open = () => orders.openSetting(
      octets(entry, 'bytes'), hex(entry.group_id), hex(entry.author), entry.key, who, [hex(entry.noise_secret)],
    )
    count.entry(entry, open, value => [value, entry.value])
  }
  for (const entry of file.secret_arguments) {
    const who = decode(hex(entry.selector))
    const open = () => orders.openArguments(
      octets(entry, 'bytes'), hex(entry.group_id), hex(entry.author), entry.action, hex(entry.once), who, [hex(entry.noise_secret)],
    )
    count.entry(entry, open, found => [Object.fromEntries(found), entry.arguments])
  }
  for (const entry of file.judgements) {
    count.one(entry.name, () => {
      const history = new History(hex(file.group_id), null)
      const operations = entry.operations.map(raw => readOperation(hex(raw))).sort((one, other) => one.height - other.height)
      for (const operation of operations) {
        history.take({ ...operation, fields: readBody(operation.kind, operation.body) }, operation.parents.map(id => history.held.get(id)))
      }
      const authority = new orders.Authority(history, new Set(entry.pinned), entry.threshold, new Set(entry.members))
      const counts = [...authority.counting()].map(order => order.id).sort()
      return [[[...authority.operators()].sort(), counts], [entry.operators, entry.counts]]
    })
  }
}

function checkCheckpoints() {
  const file = count.in('checkpoints')
  for (const entry of file.cases) {
    count.one(entry.name, () => {
      const manifest = readManifest(hex(entry.manifest))
      const history = new History(manifest.groupId, { get: id => (id === manifest.hash ? manifest : null), state: () => ({ members: new Map() }) })
      for (const raw of entry.operations) {
        const operation = readOperation(hex(raw))
        history.take({ ...operation, fields: readBody(operation.kind, operation.body) }, operation.parents.map(id => history.held.get(id)))
      }
      const pins = { operators: new Set(entry.pinned), threshold: entry.threshold }
      const found = judgeCheckpoints(history, pins).map(each => [each.last.id, each.signers, each.electors.length, each.code, each.bytes])
      return [found, entry.checkpoints.map(each => [each.id, each.signers, each.electors, each.code, each.state])]
    })
  }
  for (const entry of file.graphs) count.entry(entry, () => readHistoryGraph(octets(entry, 'bytes')), found => [found.graph, entry.graph])
}

function checkPersonal() {
  const file = count.in('personal')
  const spelled = ({ id, kind, text, groups }) => [id, kind, text, groups]
  for (const entry of file.bodies) count.entry(entry, () => readPlan(octets(entry, 'bytes')))
  const manifests = file.manifests.map(raw => readManifest(hex(raw)))
  const members = new Set(manifests.at(-1).members.map(member => member.id))
  for (const entry of file.scenarios) {
    count.one(entry.name, () => {
      const operations = entry.operations.map(raw => readOperation(hex(raw))).sort((one, other) => one.height - other.height)
      const read = operations.map(each => ({ ...each, fields: readBody(each.kind, each.body) }))
      const { groups, preferences, plans } = personalState(read, file.group_id, members)
      return [
        [groups.map(each => [each.group, each.holding, each.title]), preferences.map(each => [each.group, each.name, each.value]),
          plans.map(spelled)],
        [entry.groups, entry.preferences, entry.plans],
      ]
    })
  }
}

function checkVaultKeys() {
  const sound = file => file.check === hexOf(vault.checkOf(file)) && file.keys.every(each => each.key_id === hexOf(vault.keyId(hex(each.key))))
  for (const entry of count.in('key_files').vault_keys) {
    count.one(entry.name, () => [sound(JSON.parse(entry.text)), entry.code === null])
  }
}

function checkVault() {
  const file = count.in('vault')
  const vaultKey = { vault: hex(file.vault.vault_id), key: hex(file.vault.key) }
  const node = hex(file.node.node_id)
  count.one('key id and node id', () => [
    [vault.keyId(vaultKey.key), vault.nodeId(hex(publicKey(file, file.node.device)))], [file.vault.key_id, file.node.node_id],
  ])
  const entryOf = ({ number, incarnation, hash, size, created_at_us: createdAt, records, covers }) =>
    ({ number, incarnation: hex(incarnation), hash: hex(hash), size, createdAt, records, covers })
  const rangeOf = ({ first, last, hash, size }) => ({ first, last, hash: hex(hash), size })
  for (const entry of file.segments) {
    count.entry(entry, () => vault.readSegment(vaultKey, node, entryOf(entry.entry), octets(entry, 'bytes')), records => {
      const { number, incarnation, createdAt } = entryOf(entry.entry)
      const again = vault.writeSegment(vaultKey, node, { number, incarnation, nonce: hex(entry.nonce), createdAt, records })
      const found = [records, vault.segmentPath(vaultKey.vault, node, number, incarnation), again.object, again.entry]
      return [found, [entry.records, entry.object_key, octets(entry, 'bytes'), entryOf(entry.entry)]]
    })
  }
  for (const entry of file.ranges) {
    const range = rangeOf(entry.range)
    count.entry(entry, () => vault.readRange(vaultKey, node, range, octets(entry, 'bytes')), entries => {
      const again = vault.writeRange(vaultKey, node, hex(entry.nonce), entries)
      const found = [entries, vault.rangePath(vaultKey.vault, node, range), again.object, again.range]
      return [found, [entry.entries.map(entryOf), entry.object_key, octets(entry, 'bytes'), range]]
    })
  }
  for (const entry of file.manifests) {
    count.entry(entry, () => vault.readVaultManifest(vaultKey, node, entry.floor, octets(entry, 'bytes')), found => [
      [found.incarnation, found.sequence, found.prev, found.hash, found.createdAt, found.ranges, found.segments, vault.manifestPath(vaultKey.vault, node)],
      [entry.incarnation, entry.manifest_seq, entry.prev, entry.hash, entry.created_at_us, entry.ranges.map(rangeOf), entry.segments.map(entryOf),
        entry.object_key],
    ])
  }
}

/** Every envelope opens, is signed by whom it says, reads as its type's body, and is written again to the byte, the nonce apart. */
function checkSessions() {
  const file = count.in('sessions')
  const { READERS } = require('./readers.js')
  const bodies = { ...READERS, BLOB: () => {}, TELEMETRY: readTelemetry }
  for (const step of file.steps) {
    count.entry(step, () => {
      const { message } = envelopes.open(octets(step, 'bytes'), [noiseSecret(file, step.to)])
      const read = messages.readMessage(message)
      bodies[read.type](read.body)
      return read
    }, read => {
      const again = messages.writeMessage(hex(file.keys[step.from].signing_seed), read)
      const found = [read.raw, read.type, read.author, read.recipient, read.groupId, read.linkSeq, read.body, again]
      const [author, recipient] = [publicKey(file, step.from), publicKey(file, step.to)]
      return [found, [step.message, step.type, author, recipient, step.group_id, step.link_seq, step.body, step.message]]
    })
  }
  for (const entry of file.refused) {
    count.entry(entry, () => {
      const message = messages.readMessage(envelopes.open(octets(entry, 'bytes'), [noiseSecret(file, entry.to)]).message)
      if (message.recipient !== publicKey(file, entry.to)) throw new Refused('not_for_us')
    })
  }
}

function checkGrowth() {
  const file = count.in('growth')
  const readers = require('./readers.js')
  for (const entry of file.vectors) count.entry(entry, () => readers.read(entry.structure, octets(entry, 'bytes')))
  for (const entry of file.acknowledgements) {
    count.entry(entry, () => messages.readAcknowledgement(octets(entry, 'bytes')), found => [found.unsupported, entry.unsupported])
  }
  for (const entry of file.trust) {
    count.entry(entry, () => Group.of(readManifest(hex(entry.held))).offer(octets(entry, 'bytes')), found => [found, 'accepted'])
  }
}

function checkWycheproof() {
  const groups = name => count.in('wycheproof/' + name).testGroups
  const each = (name, test) => groups(name).forEach(group => group.tests.forEach(one => count.one(`${one.tcId} ${one.comment}`, () => test(one, group))))
  each('ed25519_test', (one, group) => [primitives.verifyRaw(hex(group.publicKey.pk), hex(one.msg), hex(one.sig)), one.result === 'valid'])
  each('x25519_test', one => {
    const shared = primitives.agree(hex(one.private), hex(one.public))
    // A key with its top bit set, or that is not reduced, is not usable (section 2), whatever it would give
    return shared === null ? [one.result === 'valid', false] : [shared, one.shared]
  })
  each('xchacha20_poly1305_test', (one, group) => {
    if (group.ivSize !== 192) return undefined
    let opened = null
    try {
      opened = primitives.xchachaOpen(hex(one.ct + one.tag), hex(one.iv), hex(one.key), hex(one.aad))
    } catch (error) {
      if (!(error instanceof Refused)) throw error
    }
    return [opened, one.result === 'valid' ? one.msg : null]
  })
}

const checks = [
  checkCbor, checkEnvelopes, checkMessages, checkPresences, checkHeads, checkInvites, checkCeremonies, checkTelemetry, checkSummaries, checkGroupManifests, checkGroupMessages,
  checkHistory, checkOrders, checkCheckpoints, checkPersonal, checkVaultKeys, checkVault, checkSessions, checkGrowth, checkWycheproof,
]
for (const check of checks) check()
process.exitCode = count.report() ? 0 : 1
