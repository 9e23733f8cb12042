// Section 29: what the history of a person's own devices comes to: groups, preferences, and plans for several groups.
'use strict'
const { Refused, decode, encode } = require('./cbor.js')
const { KINDS } = require('./history.js')
const { hexOf } = require('./manifests.js')
const { COMMAND, SETTING } = require('./orders.js')
const { blake2b } = require('./primitives.js')
const { ascendingBytes, hash, integer, key, octets, orNull, structure, text } = require('./shapes.js')

const PLAN = 14
const MAXIMUM_GROUPS = 128
const MAXIMUM_OWN_GROUPS = 256
const MAXIMUM_PREFERENCES = 1024
const MAXIMUM_BODY_BYTES = 65536
const [HELD] = [0, 1, 2] // held, left, erased
const MAXIMUM_ORDER_BYTES = 57344
const DEVICES = 3
const OF_GROUP = new Set(['group', 'file']) // the arguments of a release that differ from group to group

/** {id, kind, text, groups, order}: the body of an operation of kind PLAN. One that does not read is opaque, and never refused. */
function readPlan(body) {
  const shapes = [hash, orNull(integer(0, 255)), text(256), ascendingBytes(key, MAXIMUM_GROUPS, 1)]
  const fields = structure(decode(body, MAXIMUM_BODY_BYTES), shapes, { optional: [octets(MAXIMUM_ORDER_BYTES)] })[0]
  const [id, kind, words, groups, order = null] = fields
  return { id, kind, text: words, groups, order }
}

/** The once-id of a setting, under an odd key: null where there is none, or none that reads */
function onceOf(body) {
  const extensions = decode(body, MAXIMUM_BODY_BYTES).at(-1)
  const once = extensions instanceof Map ? extensions.get(1) : null
  return Buffer.isBuffer(once) && once.length === 16 ? once : null
}

/** The id of the plan that an author's order belongs to, null where it can be of none */
function planOf(author, kind, body, fields) {
  const selection = selector => (selector?.[0] === DEVICES ? [DEVICES] : selector)
  const id = (common, selector = fields[0]) => blake2b(encode([author, kind, selection(selector), common]), 'covey/1 fleet')
  if (kind === SETTING) {
    const [, name, value, sealed] = fields
    const once = onceOf(body)
    return once && id([once, name, value, sealed !== null])
  }
  if (kind !== COMMAND) return null
  const [, action, given, once, deadline, sealed, rollOut] = fields
  if (!rollOut) return id([once, action, given, deadline, sealed !== null])
  const [selector, ...bounds] = rollOut
  const common = new Map([...given].filter(([name]) => !OF_GROUP.has(name)))
  return id([once, action, common, deadline, bounds], selector)
}

/** What the operations that count come to, in the history's order; `members` are those of the personal group now. */
function personalState(operations, personal, members) {
  const [groups, preferences, plans] = [new Map(), new Map(), new Map()]
  for (const { kind, author, body, fields } of operations) {
    if (kind === KINDS.OWN_GROUP) {
      const [group, holding, title] = fields
      const name = hexOf(group)
      const heeded = holding === HELD || members.has(author) // 2
      const room = groups.has(name) || groups.size < MAXIMUM_OWN_GROUPS // 3
      if (name !== personal && heeded && room) groups.set(name, { group, holding, title })
    } else if (kind === KINDS.PREFERENCE) {
      const [group, name, value] = fields
      const place = (group ? hexOf(group) : '') + '/' + name
      if (preferences.has(place) || preferences.size < MAXIMUM_PREFERENCES) preferences.set(place, { group, name, value })
    } else if (kind === PLAN) {
      const plan = orOpaque(() => readPlan(body))
      if (plan && !plans.has(hexOf(plan.id))) plans.set(hexOf(plan.id), plan)
    }
  }
  const set = [...preferences.values()].filter(each => each.value !== null)
  return { groups: [...groups.values()], preferences: set, plans: [...plans.values()] }
}

function orOpaque(read) {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return null
  }
}

module.exports = { personalState, planOf, readPlan }
