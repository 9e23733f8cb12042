#!/usr/bin/env node
// Says what this device makes of structures and graphs: a question in JSON on each line of its input, an answer on each of its output.
'use strict'
const readline = require('node:readline')
const { Refused } = require('./cbor.js')
const { stateOf } = require('./checkpoints.js')
const { draft } = require('./draft.js')
const { Group } = require('./groups.js')
const { History, readBody, readOperation } = require('./history.js')
const { readManifest } = require('./manifests.js')
const { Authority } = require('./orders.js')
const { planOf } = require('./personal.js')
const { edPublic } = require('./primitives.js')
const { read } = require('./readers.js')
const { Spake2 } = require('./spake2.js')

const hex = text => Buffer.from(text, 'hex')

/** What an action gives, or the code with which it is refused */
function outcome(action) {
  try {
    return action()
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return error.code
  }
}

/** A manifest each for a group that begins with the first one: outcomes, and what holds then */
function manifests({ manifests: raws }) {
  const group = Group.of(readManifest(hex(raws[0])))
  const outcomes = raws.slice(1).map(raw => outcome(() => group.offer(hex(raw))))
  const { members, bans } = group.graph.state()
  return {
    outcomes,
    members: [...members.values()].sort((one, other) => (one.id < other.id ? -1 : 1)).map(member => [
      member.id, member.noise.toString('hex'), member.label, member.role, Number(member.since),
    ]),
    banned: [...bans.values()].map(ban => [ban.id, Number(ban.since)]).sort(),
    heads: group.graph.heads().map(head => head.hash).sort(),
    conflict: group.graph.current() === null,
    current: group.graph.current()?.hash ?? null,
  }
}

/** Operations in the order in which they come, until nothing more is taken */
function historyOf({ group, manifests: raws, operations }) {
  const known = raws.map(raw => readManifest(hex(raw)))
  const last = known.at(-1)
  const graph = {
    get: id => known.find(each => each.hash === id),
    state: () => ({ members: new Map(last.members.map(member => [member.id, member])) }),
  }
  const history = new History(hex(group), graph)
  let waiting = operations.map(raw => readOperation(hex(raw)))
  for (let before = Infinity; waiting.length < before; ) {
    before = waiting.length
    waiting = waiting.filter(operation => outcome(() => history.offer(operation)) === 'waits')
  }
  return history
}

function operations(question) {
  const history = historyOf(question)
  return {
    ids: history.inOrder().map(each => each.id),
    heads: history.heads().map(each => each.id).sort(),
    void: [...history.voids()].sort(),
  }
}

function orders({ operations: raws, pinned, threshold, members }) {
  const history = new History(Buffer.alloc(32), null)
  const read = raws.map(raw => readOperation(hex(raw))).sort((one, other) => one.height - other.height)
  for (const operation of read) {
    const entry = { ...operation, fields: readBody(operation.kind, operation.body) }
    history.take(entry, operation.parents.map(id => history.held.get(id)))
  }
  const authority = new Authority(history, new Set(pinned), threshold, new Set(members))
  return { operators: [...authority.operators()].sort(), counts: [...authority.counting()].map(order => order.id).sort() }
}

/** The manifest that a device issues which holds these: it ends their conflict, adds somebody, or removes a member. */
function issue({ manifests: raws, seed, add, remove }) {
  const group = Group.of(readManifest(hex(raws[0])))
  for (const raw of raws.slice(1)) outcome(() => group.offer(hex(raw)))
  const signing = hex(seed)
  const key = edPublic(signing)
  const { raw } = draft(group.graph, { signing, key, id: key.toString('hex') }, (members, _, version) => {
    members.delete(remove)
    const record = add && { signing: hex(add[0]), id: add[0], noise: hex(add[1]), name: add[0].slice(0, 8), label: 'new', role: 0, capabilities: [] }
    if (add) members.set(add[0], { ...record, since: version, allowance: 0, extensions: new Map() })
  }, Buffer.alloc(32, 7))
  return outcome(() => (group.offer(raw), raw.toString('hex'))) // `limit` where its allowance does not suffice
}

/** The state of a checkpoint whose `covers` is the last of these operations */
function state({ operations: raws, pinned, threshold, members }) {
  const history = new History(Buffer.alloc(32), null)
  for (const operation of raws.map(raw => readOperation(hex(raw))).sort((one, other) => one.height - other.height)) {
    history.take({ ...operation, fields: readBody(operation.kind, operation.body) }, operation.parents.map(id => history.held.get(id)))
  }
  const covers = history.held.get(readOperation(hex(raws.at(-1))).id)
  return stateOf(history, covers, { operators: new Set(pinned), threshold }, new Set(members)).bytes.toString('hex')
}

function plan({ author, kind, bytes }) {
  const body = hex(bytes)
  return planOf(hex(author), kind, body, readBody(kind, body))?.toString('hex') ?? null
}

/** One side's element, and its key by the other one's element */
function pake({ inviter, password, entropy, element }) {
  const side = new Spake2(inviter, hex(password), hex(entropy))
  return { element: side.element.toString('hex'), key: outcome(() => side.finish(hex(element)).toString('hex')) }
}

const QUESTIONS = {
  read: ({ structure, bytes }) => outcome(() => (read(structure, hex(bytes)), null)),
  manifests,
  operations,
  orders,
  issue,
  state,
  plan,
  pake,
}

readline.createInterface({ input: process.stdin }).on('line', line => {
  const question = JSON.parse(line)
  process.stdout.write(JSON.stringify(QUESTIONS[question.ask](question)) + '\n')
})
