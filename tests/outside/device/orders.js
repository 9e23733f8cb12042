// Sections 25 to 27: bodies of orders, whose word counts, secret values, and what becomes of orders.
'use strict'
const { Refused, decode, encode, limit, malformed } = require('./cbor.js')
const { blake2b, boxOpen, verify, xchachaOpen } = require('./primitives.js')
const {
  UINT63, ascending, ascendingBytes, boolean, checkExtensions, exactly, hash, integer, isInteger, key, list, octets, orNull, read, structure,
  text, tuple, uint63,
} = require('./shapes.js')

const [OPERATOR, SETTING, COMMAND, APPROVAL, OBEYING, RELEASE] = [4, 5, 6, 7, 8, 13]
const MAXIMUM_BODY_BYTES = 65536
const MAXIMUM_SEALED_BYTES = 61440
const CHANGES_OF_A_LOG = 128

const matching = (pattern, most) => value => {
  if (!pattern.test(text(most)(value))) throw malformed('name')
  return value
}
const settingKey = matching(/^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/, 96)
const actionName = matching(/^[a-z0-9]+([_-]+[a-z0-9]+)*$/, 48)
const argumentName = matching(/^[a-z0-9]+([_-]+[a-z0-9]+)*$/, 32)
const once = exactly(16)
const sealedBytes = octets(MAXIMUM_SEALED_BYTES)
const nonEmpty = shape => value => {
  if (shape(value) === '') throw malformed('empty')
  return value
}

const SELECTORS = [[], [nonEmpty(text(64))], [nonEmpty(text(32))], [ascendingBytes(key, 1000, 1)]]
function selector(value) {
  if (!Array.isArray(value) || !SELECTORS[value[0]]) throw malformed('selector')
  return tuple(integer(0, 3), ...SELECTORS[value[0]])(value)
}
function selects([kind, what], id, member) {
  if (kind === 3) return what.some(each => each.toString('hex') === id)
  if (!member || member.capabilities.includes('board')) return false
  return kind === 0 || (kind === 1 ? member.label === what : member.capabilities.includes(what))
}

const settingValue = most => value => {
  if (value === null || typeof value === 'boolean') return value
  return isInteger(value) ? value : text(most)(value)
}
function namedArguments(value) {
  if (!(value instanceof Map)) throw malformed('arguments')
  if (value.size > 16) throw limit('arguments')
  for (const [name, content] of value) {
    argumentName(name)
    text(1024)(content)
  }
  return value
}
const wave = value => (Array.isArray(value) ? tuple(integer(1, 100))(value) : integer(1, 1000)(value))
const rollOut = value => structure(value, [selector, list(wave, 16, 1), integer(0, 100), uint63, uint63], { optional: [uint63] })[0]

const SHAPES = {
  [OPERATOR]: [key, text(64), boolean],
  [SETTING]: [selector, settingKey, settingValue(16384), orNull(sealedBytes)],
  [COMMAND]: [selector, actionName, namedArguments, once, orNull(uint63), orNull(sealedBytes)],
  [APPROVAL]: [hash],
  [OBEYING]: [],
  [RELEASE]: [once, integer(0, 2), text(256), ascendingBytes(key, 1000), orNull(integer(0, 100))],
}

function readOrderBody(kind, body) {
  const [fields] = structure(decode(body, MAXIMUM_BODY_BYTES), SHAPES[kind], { optional: kind === COMMAND ? [rollOut] : [] })
  if (kind === SETTING && fields[2] !== null && fields[3] !== null) throw malformed('open and sealed')
  if (kind === COMMAND && fields.length > 6 && fields[5] !== null) throw malformed('a wave with sealed arguments')
  if (kind === RELEASE && fields[1] !== 0 && (fields[3].length || fields[4] !== null)) throw malformed('release')
  return fields
}

const planOf = ([, action, given, onceId, deadline, , roll]) =>
  blake2b(encode([action, given, onceId, deadline, roll]), 'covey/1 plan').toString('hex')

/** Section 25, *Whose word counts*: `history` is a History, `pinned` and `members` sets of hex keys. */
class Authority {
  constructor(history, pinned, threshold, members, voids = new Set()) {
    Object.assign(this, { history, pinned, threshold, members, memo: new Map(), signing: new Map() })
    const stands = history.order.filter(each => !voids.has(each.id))
    const changes = stands.filter(each => each.kind === OPERATOR)
    const ids = new Set(changes.map(each => each.id))
    const approvals = stands.filter(each => each.kind === APPROVAL)
    this.changes = firstOfLogs(changes) // 6
    this.approvals = [
      ...firstOfLogs(approvals.filter(each => ids.has(targetOf(each)))), ...approvals.filter(each => !ids.has(targetOf(each))),
    ]
    this.orders = stands.filter(each => [SETTING, COMMAND, RELEASE].includes(each.kind))
  }

  /** Who operates by what `known` holds, a set of bits; `met` says whether rule 3 is applied. */
  operatorsAt(known, met) {
    const name = `${known}${met}`
    if (!this.memo.has(name)) {
      this.memo.set(name, new Set()) // an author knows less than what follows it, so this is never read
      const changes = this.changes.filter(each => has(known, each))
      const removals = changes.filter(each => !each.fields[2] && this.agreed(each, known, [], false)) // 2
      const additions = changes.filter(each => each.fields[2] && this.agreed(each, known, met ? this.removals() : [], met)) // 3
      const about = (list, id) => list.filter(each => each.fields[0].toString('hex') === id)
      const ids = new Set([...this.pinned, ...additions.map(each => each.fields[0].toString('hex'))])
      const operators = [...ids].filter(id => {
        const [gone, back] = [about(removals, id), about(additions, id)]
        return gone.every(removal => back.some(addition => this.history.follows(addition, removal)))
      })
      this.memo.set(name, new Set(operators))
    }
    return this.memo.get(name)
  }

  /** Rule 1: whether its author was an operator by what it knew */
  signs(operation, met) {
    return this.operatorsAt(operation.ancestors, met).has(operation.author)
  }

  signers(operation, known, removals, met, members = null) {
    const byOthers = each => targetOf(each) === operation.id && each.author !== operation.author && has(known, each)
    const words = [operation, ...this.approvals.filter(byOthers)]
    const stands = word =>
      this.signs(word, met) &&
      (!members || members.has(word.author)) &&
      !removals.some(removal => removal.fields[0].toString('hex') === word.author && this.beside(removal, word))
    return new Set(words.filter(stands).map(each => each.author))
  }

  beside(one, other) {
    return one !== other && !this.history.follows(one, other) && !this.history.follows(other, one)
  }

  agreed(operation, known, removals, met, members = null) {
    const signers = this.signers(operation, known, removals, met, members)
    return signers.size >= this.threshold && signers.has(operation.author)
  }

  /** Whether a change of operators counts, by all that is known */
  counts(change) {
    return this.agreed(change, this.everything, change.fields[2] ? this.removals() : [], change.fields[2])
  }

  /** Those that count, whoever knew of them: what they meet is lost, and all that rests on it. */
  removals() {
    this.counted ??= this.changes.filter(each => !each.fields[2] && this.agreed(each, this.everything, [], false))
    return this.counted
  }

  get everything() {
    return (1n << BigInt(this.history.bits)) - 1n
  }

  operators() {
    return this.operatorsAt(this.everything, true)
  }

  /** Rules 3, 5 and 7: the orders that count */
  counting() {
    const signers = order => this.signers(order, this.everything, this.removals(), true, this.members)
    const own = order => signers(order).has(order.author)
    const counts = new Set(this.orders.filter(order => own(order) && (order.kind === RELEASE || signers(order).size >= this.threshold)))
    const isWave = order => order.kind === COMMAND && order.fields.length > 6
    const plans = new Set([...counts].filter(isWave).map(order => planOf(order.fields)))
    for (const order of this.orders) if (isWave(order) && own(order) && plans.has(planOf(order.fields))) counts.add(order)
    return counts
  }

  /** Rule 8, over all operations as if none were void: settings that a later one of their author replaces */
  replaced() {
    const settings = this.history.inOrder().filter(each => each.kind === SETTING)
    const replacing = settings.filter(each => this.agreed(each, this.everything, [], false))
    return new Set(
      settings.filter((each, n) =>
        settings.slice(n + 1).some(
          later =>
            replacing.includes(later) && later.author === each.author && later.fields[1] === each.fields[1] &&
            (later.fields[0][0] === 0 || encode(later.fields[0]).equals(encode(each.fields[0]))),
        ),
      ),
    )
  }
}

const has = (known, operation) => Boolean((known >> BigInt(operation.bit)) & 1n)
const targetOf = approval => approval.fields[0].toString('hex')
function firstOfLogs(operations) {
  const taken = new Map()
  const sorted = [...operations].sort((one, other) => one.number - other.number || (one.id < other.id ? -1 : 1))
  return sorted.filter(each => {
    const log = each.author + each.incarnation
    taken.set(log, (taken.get(log) ?? 0) + 1)
    return taken.get(log) <= CHANGES_OF_A_LOG
  })
}

const BUCKETS = [64, 256, 1024, 4096, 12288]
function openSealed(sealed, binding, noiseSecrets) {
  const [[, ephemeral, boxes, ciphertext]] = structure(read(sealed, MAXIMUM_SEALED_BYTES), [
    integer(1, 1), key, octets(48 * 1000), octets(MAXIMUM_SEALED_BYTES),
  ])
  if (!boxes.length || boxes.length % 48 || !BUCKETS.includes(ciphertext.length - 16)) throw malformed('sealed value')
  const nonce = blake2b(Buffer.concat([ephemeral, binding]), 'covey/1 secret').subarray(0, 24)
  for (const secret of noiseSecrets) {
    for (let at = 0; at < boxes.length; at += 48) {
      let content
      try {
        content = boxOpen(boxes.subarray(at, at + 48), nonce, ephemeral, secret)
      } catch {
        continue // for another recipient
      }
      return decode(unpad(xchachaOpen(ciphertext, nonce, content, binding)), 12288)
    }
  }
  throw new Refused('decryption')
}
function unpad(plain) {
  let end = plain.length
  while (end && plain[end - 1] === 0) end--
  if (!end || plain[end - 1] !== 0x80 || BUCKETS.find(size => size >= end) !== plain.length) throw malformed('padding')
  return plain.subarray(0, end - 1)
}
const openSetting = (sealed, groupId, author, name, who, secrets) =>
  settingValue(16384)(openSealed(sealed, encode(['covey/1 secret', groupId, author, name, who]), secrets))
const openArguments = (sealed, groupId, author, action, onceId, who, secrets) =>
  namedArguments(openSealed(sealed, encode(['covey/1 command', groupId, author, action, onceId, who]), secrets))

const [DONE, STOPPED, REFUSED, UNKNOWN] = [2, 3, 4, 5]
const MAXIMUM_BOARD_RESULT_BYTES = 1024
const RESULT = [
  hash, integer(2, 5), orNull(integer(-255, 255)), octets(65536), boolean, uint63, orNull(uint63), uint63, boolean, text(32), text(256),
]

/** The fields of a result; that of a board comes as the board signed it, or in its stead from its gateway (section 18, *Orders*). */
function readResult(bytes) {
  const value = read(bytes, 65952)
  const length = Array.isArray(value) ? value.length - (value.at(-1) instanceof Map) : 0
  if (length !== 3) return checkResult(structure(value, RESULT)[0])
  const [[signed, board, mark]] = structure(value, [octets(MAXIMUM_BOARD_RESULT_BYTES), key, orNull(exactly(64))])
  if (mark) verify(board, 'covey/1 board result', signed, mark)
  const fields = checkResult(structure(read(signed, MAXIMUM_BOARD_RESULT_BYTES), RESULT, { optional: [text(96)] })[0])
  if (!mark && fields[1] !== REFUSED && fields[1] !== UNKNOWN) throw malformed('a result that only its board may report')
  return fields
}

function checkResult(fields) {
  const [, state, exit, output, , , started, , , code] = fields
  if ((state === DONE) !== (exit !== null) || (state === DONE) !== (code === '')) throw malformed('exit')
  if ((state === DONE || state === STOPPED) && started === null) throw malformed('start')
  if (state === REFUSED && (started !== null || output.length)) throw malformed('refused')
  return fields
}

const reported = tuple(text(96), hash, integer(0, 6), settingValue(1024), text(32), text(256))
function readReport(bytes) {
  const value = read(bytes, 186384)
  if (!Array.isArray(value)) throw malformed('report')
  const mapped = value.at(-1) instanceof Map
  const found = list(reported, 128)(mapped ? value.slice(0, -1) : value)
  ascending(found, (one, other) => Buffer.compare(Buffer.from(one[0]), Buffer.from(other[0])))
  checkExtensions(mapped ? value.at(-1) : null)
  return found
}

module.exports = {
  Authority, COMMAND, DONE, OBEYING, REFUSED, SETTING, STOPPED, UINT63, UNKNOWN, openArguments, openSetting, readOrderBody, readReport, readResult,
  selects,
}
