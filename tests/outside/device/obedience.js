// Sections 25 to 27: what a device sets and does for the operators whom its owner has pinned, and what it reports of it.
'use strict'
const { spawn } = require('node:child_process')
const { encode } = require('./cbor.js')
const { KINDS } = require('./history.js')
const { bytesOf } = require('./holdings.js')
const { hexOf } = require('./manifests.js')
const { Authority, COMMAND, DONE, REFUSED, SETTING, STOPPED, UNKNOWN, openArguments, openSetting, selects } = require('./orders.js')
const { Refused } = require('./cbor.js')

const [APPLIED, SETTING_REFUSED] = [1, 2]
const MAXIMUM_OUTPUT = 65536
const ACTION_MS = 60000
const MAXIMUM_SETTINGS = 128

class Obedience {
  /** `actions`: name => words of a program, which is given the arguments' values in the order of their names */
  constructor(device, { operators, threshold, actions }) {
    Object.assign(this, { device, operators, threshold, actions, running: false })
  }

  pinned(holding) {
    return new Set([...this.operators, ...(holding.about?.operators ?? [])])
  }

  authority(holding) {
    return new Authority(holding.history, this.pinned(holding), this.threshold, holding.history.present(), holding.history.voids())
  }

  /** Looks at a group's orders after its history or its members have changed. */
  look(holding) {
    const pinned = this.pinned(holding)
    if (!pinned.size || !holding.isMember) return
    this.obey(holding, pinned)
    this.authorityNow = this.authority(holding)
    const counting = this.authorityNow.counting()
    this.set(holding, counting)
    this.command(holding, counting)
    this.begin()
  }

  /** Section 27, rule 1: only what follows its last `obeying` is done. */
  obey(holding, pinned) {
    if (!this.actions.size || !holding.others().some(id => pinned.has(id)) || this.lastObeying(holding)) return
    const { device } = this
    const tx = device.links.transaction()
    const operation = holding.writeOperation(tx, KINDS.OBEYING, encode([]), device.now() * 1000)
    for (const to of holding.others()) device.links.queue(tx, { to, groupId: holding.groupId, type: 'OPERATIONS', body: holding.operationsBody([operation]) })
    tx.commit()
  }

  lastObeying(holding) {
    const own = hexOf(this.device.identity.incarnation)
    const mine = each => each.kind === KINDS.OBEYING && each.author === this.device.identity.id && each.incarnation === own
    return holding.history.inOrder().filter(mine).at(-1) ?? null
  }

  recipients(holding, more = []) {
    const collectors = [...holding.members().values()].filter(member => member.capabilities.includes('collector')).map(member => member.id)
    const known = new Set(holding.others())
    return [...new Set([...more, ...collectors])].filter(id => known.has(id))
  }

  set(holding, counting) {
    const { id } = this.device.identity
    const replaced = this.authorityNow.replaced()
    const last = new Map()
    for (const order of holding.history.inOrder()) {
      if (order.kind !== SETTING || !counting.has(order) || replaced.has(order)) continue
      if (selects(order.fields[0], id, holding.members().get(id))) last.set(order.fields[1], order)
    }
    const report = [...last].sort((one, other) => (one[0] < other[0] ? -1 : 1)).slice(0, MAXIMUM_SETTINGS)
    const values = {}
    const body = encode(report.map(([name, order]) => this.apply(holding, name, order, values)))
    const tx = this.device.links.transaction()
    if (JSON.stringify(tx.get('settings/' + holding.id) ?? {}) !== JSON.stringify(values)) tx.set('settings/' + holding.id, values)
    for (const to of this.recipients(holding, this.authorityNow.operators())) {
      const told = `told/${holding.id}/${to}`
      if ((tx.get(told) ?? '80') === hexOf(body)) continue
      tx.set(told, hexOf(body))
      this.device.links.queue(tx, { to, groupId: holding.groupId, type: 'SETTING_REPORT', body })
    }
    tx.commit()
  }

  apply(holding, name, order, values) {
    const [who, , open, sealed] = order.fields
    const row = (state, code = '', why = '') => [name, bytesOf(order.id), state, null, code, why]
    if (!name.startsWith('app.')) {
      if (sealed) return row(SETTING_REFUSED, 'setting_not_secret', 'only a setting of a program may be secret')
      return row(SETTING_REFUSED, 'setting_unknown', 'this device has no such setting')
    }
    let value = open
    if (sealed) {
      try {
        value = openSetting(sealed, holding.groupId, bytesOf(order.author), name, who, this.device.identity.noise.map(each => each.secret))
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        return row(SETTING_REFUSED, 'setting_sealed', 'this device cannot open the value')
      }
    }
    if (value !== null) values[name] = typeof value === 'bigint' ? String(value) : value
    return row(APPLIED)
  }

  command(holding, counting) {
    const obeying = this.lastObeying(holding)
    if (!obeying) return
    const { id } = this.device.identity
    const tx = this.device.links.transaction()
    for (const order of holding.history.inOrder()) {
      if (order.kind !== COMMAND || !counting.has(order) || !holding.history.follows(order, obeying) || tx.get('taken/' + order.id)) continue
      const named = holding.graph.get(order.manifest).members.find(member => member.id === id)
      if (!selects(order.fields[0], id, holding.members().get(id)) || !selects(order.fields[0], id, named)) continue
      const once = 'once/' + hexOf(order.fields[3])
      const repeated = tx.get(once) !== undefined
      tx.set(once, order.id)
      tx.set('taken/' + order.id, { group: holding.id, at: this.device.now() * 1000, state: 'waiting', repeated })
    }
    tx.commit()
  }

  /** Does what waits, one after the other. That it begins is on the disk before its program starts. */
  begin() {
    if (this.running) return
    for (const [orderId, taken] of this.device.store.under('taken/')) {
      if (taken.state === 'done') continue
      const holding = this.device.holdings.get(taken.group)
      const order = holding?.history?.held.get(orderId)
      if (!order) continue
      if (taken.state === 'begun') return this.end(holding, order, taken, { state: UNKNOWN, code: 'action_went_down', why: 'the device went down' })
      const refusal = this.refusal(holding, order, taken)
      if (refusal) return this.end(holding, order, taken, { state: REFUSED, ...refusal })
      return this.run(holding, order, taken)
    }
  }

  refusal(holding, order, { repeated }) {
    const [, action, , , deadline] = order.fields
    if (repeated) return { code: 'action_repeated', why: 'another order had this once-id' }
    if (!this.authority(holding).counting().has(order)) return { code: 'action_revoked', why: 'the order does not count any more' }
    if (!this.actions.has(action)) return { code: 'action_not_defined', why: 'this device has no such action' }
    if (deadline !== null && this.device.now() * 1000 > Number(deadline)) return { code: 'action_late', why: 'the deadline has passed' }
    return null
  }

  run(holding, order, taken) {
    const [who, action, given, once, , sealed] = order.fields
    let secret = new Map()
    if (sealed) {
      try {
        const secrets = this.device.identity.noise.map(each => each.secret)
        secret = openArguments(sealed, holding.groupId, bytesOf(order.author), action, once, who, secrets)
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        return this.end(holding, order, taken, { state: REFUSED, code: 'action_sealed', why: 'this device cannot open the arguments' })
      }
    }
    const words = [...given].sort((one, other) => (one[0] < other[0] ? -1 : 1)).map(([, value]) => value)
    const started = this.device.now() * 1000
    this.device.store.commit([['taken/' + order.id, { ...taken, state: 'begun', started }]])
    this.running = true
    const [program, ...before] = this.actions.get(action)
    const child = spawn(program, [...before, ...words], { stdio: ['pipe', 'pipe', 'pipe'] })
    child.stdin.on('error', () => {})
    child.stdin.end([...secret].map(([name, value]) => `${name}=${value}\n`).join(''))
    let output = Buffer.alloc(0)
    let cut = false
    const collect = part => {
      const room = MAXIMUM_OUTPUT - output.length
      cut ||= part.length > room
      output = Buffer.concat([output, part.subarray(0, room)])
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    let late = false
    const timer = setTimeout(() => child.kill('SIGKILL', (late = true)), ACTION_MS)
    const finish = result => {
      if (!this.running) return
      this.running = false
      clearTimeout(timer)
      this.end(holding, order, { ...taken, started }, result)
    }
    child.on('error', error => {
      this.device.store.commit([['taken/' + order.id, taken]])
      finish({ state: REFUSED, code: 'action_not_started', why: error.code ?? 'it did not start', started: null })
    })
    child.on('close', (exit, signal) => {
      if (late) return finish({ state: STOPPED, output, cut, started, code: 'action_time', why: 'it ran for too long' })
      const number = signal ? -require('node:os').constants.signals[signal] : exit
      finish({ state: DONE, exit: number, output, cut, started })
    })
  }

  end(holding, order, taken, { state, exit = null, output = Buffer.alloc(0), cut = false, started = taken.started ?? null, code = '', why = '' }) {
    const now = this.device.now() * 1000
    const body = encode([
      bytesOf(order.id), state, exit, output, cut, taken.at, state === REFUSED ? null : started, Math.max(now, taken.at), false, code, why,
    ])
    const tx = this.device.links.transaction()
    tx.set('taken/' + order.id, { ...taken, state: 'done' })
    for (const to of this.recipients(holding, [order.author])) {
      this.device.links.queue(tx, { to, groupId: holding.groupId, type: 'ORDER_RESULT', body })
    }
    tx.commit()
    this.device.say({ event: 'command', order: order.id, state, code })
    setImmediate(() => {
      this.begin()
      this.device.flush()
    })
  }
}

module.exports = { Obedience }
