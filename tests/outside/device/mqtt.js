// Section 3: what of MQTT 5 a device needs. A delivery is acknowledged when the device says so, and not before.
'use strict'
const { EventEmitter } = require('node:events')
const net = require('node:net')
const tls = require('node:tls')

const [CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, DISCONNECT] = [1, 2, 3, 4, 8, 9, 12, 14]
const PORTS = { 'mqtt:': 1883, 'mqtts:': 8883 }
const KEEP_ALIVE_S = 30
const SESSION_EXPIRY_S = 7 * 86400
const MAXIMUM_DELIVERIES = 64
// The width of each property's value; 's' is text or bytes with a length, 'v' a variable integer, 'p' a pair of texts
const PROPERTIES = {
  1: 1, 2: 4, 3: 's', 8: 's', 9: 's', 11: 'v', 17: 4, 18: 's', 19: 2, 21: 's', 22: 's', 23: 1, 24: 4, 25: 1, 26: 's', 28: 's', 31: 's', 33: 2,
  34: 2, 35: 2, 36: 1, 37: 1, 38: 'p', 39: 4, 40: 1, 41: 1, 42: 1,
}
const [SESSION_EXPIRY, WILL_DELAY, MESSAGE_EXPIRY, RECEIVE_MAXIMUM, MAXIMUM_PACKET] = [17, 24, 2, 33, 39]

function variable(number) {
  const out = []
  do {
    out.push((number & 127) | (number > 127 ? 128 : 0))
    number >>= 7
  } while (number)
  return Buffer.from(out)
}
const number = (value, width) => {
  const out = Buffer.alloc(width)
  out.writeUIntBE(value, 0, width)
  return out
}
const sized = value => {
  const bytes = Buffer.from(value)
  return Buffer.concat([number(bytes.length, 2), bytes])
}
function properties(pairs) {
  const bytes = Buffer.concat(pairs.map(([id, value]) => Buffer.concat([Buffer.from([id]), number(value, PROPERTIES[id])])))
  return Buffer.concat([variable(bytes.length), bytes])
}
function packet(type, flags, ...parts) {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([(type << 4) | flags]), variable(body.length), body])
}

class Cursor {
  constructor(bytes) {
    Object.assign(this, { bytes, at: 0 })
  }

  number(width) {
    this.at += width
    return this.bytes.readUIntBE(this.at - width, width)
  }

  variable() {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = this.number(1)
      value += (byte & 127) * 2 ** shift
      if (byte < 128) return value
    }
  }

  sized() {
    const length = this.number(2)
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }

  properties() {
    const found = new Map()
    for (const end = this.variable() + this.at; this.at < end; ) {
      const id = this.number(1)
      const kind = PROPERTIES[id]
      if (kind === undefined) throw new Error(`property ${id}`)
      if (kind === 'p') this.sized()
      found.set(id, kind === 'v' ? this.variable() : typeof kind === 'number' ? this.number(kind) : this.sized())
    }
    return found
  }
}

/** One connection. Emits `connect` (its CONNACK was good), `delivery` ({topic, payload, id}) and, once, `close` (why). */
class Connection extends EventEmitter {
  constructor(url, { user, password = null, certificates = null, will = null, anyRelay = false, sessionExpiry = SESSION_EXPIRY_S }) {
    super()
    const { protocol, hostname: host, port } = new URL(url)
    if (!PORTS[protocol]) throw new Error(`no relay: ${url}`)
    const where = { host, port: Number(port) || PORTS[protocol] }
    const trust = certificates ? { ca: certificates } : { rejectUnauthorized: !anyRelay }
    const proof = password?.startsWith('-----BEGIN') ? { key: password, cert: password } : {} // a credential may be a key with its certificate
    this.socket = protocol === 'mqtts:' ? tls.connect({ ...where, servername: host, ...trust, ...proof }) : net.connect(where)
    if (proof.key) password = null
    Object.assign(this, { sessionExpiry, pending: Buffer.alloc(0), queue: [], flying: new Set(), nextId: 1, receiveMaximum: 65535, maximumPacket: Infinity, up: false })
    this.socket.once(protocol === 'mqtts:' ? 'secureConnect' : 'connect', () => this.hello(user, password, will))
    this.socket.on('data', bytes => this.read(bytes))
    this.socket.on('error', error => this.end(error.message))
    this.socket.on('close', () => this.end('closed'))
    this.pings = setInterval(() => this.up && this.socket.write(packet(PINGREQ, 0)), (KEEP_ALIVE_S * 1000) / 2)
    this.pings.unref()
  }

  hello(user, password, will) {
    const flags = 0x80 | (password === null ? 0 : 0x40) | (will ? 0x04 | 0x08 : 0) // Clean Start 0, a will of QoS 1
    const parts = [sized('MQTT'), Buffer.from([5, flags]), number(KEEP_ALIVE_S, 2)]
    parts.push(properties([[SESSION_EXPIRY, this.sessionExpiry], [RECEIVE_MAXIMUM, MAXIMUM_DELIVERIES]]), sized(user))
    if (will) parts.push(properties([[WILL_DELAY, will.delay]]), sized(will.topic), sized(will.payload))
    parts.push(sized(user))
    if (password !== null) parts.push(sized(password))
    this.socket.write(packet(CONNECT, 0, ...parts))
  }

  read(bytes) {
    this.pending = Buffer.concat([this.pending, bytes])
    try {
      for (;;) {
        let length = 0
        let at = 1
        for (; ; at++) {
          if (at >= this.pending.length) return
          length += (this.pending[at] & 127) * 2 ** (7 * (at - 1))
          if (this.pending[at] < 128) break
          if (at > 4) throw new Error('length')
        }
        if (this.pending.length < at + 1 + length) return
        const [head] = this.pending
        const body = this.pending.subarray(at + 1, at + 1 + length)
        this.pending = this.pending.subarray(at + 1 + length)
        this.take(head >> 4, head & 15, new Cursor(body))
      }
    } catch (error) {
      this.end(`unreadable: ${error.message}`)
    }
  }

  take(type, flags, body) {
    if (type === CONNACK) {
      body.number(1)
      const reason = body.number(1)
      if (reason) return this.end(`refused with reason ${reason}`)
      const limits = body.properties()
      this.receiveMaximum = limits.get(RECEIVE_MAXIMUM) ?? 65535
      this.maximumPacket = limits.get(MAXIMUM_PACKET) ?? Infinity
      this.up = true
      this.emit('connect')
    } else if (type === PUBLISH) {
      const topic = body.sized().toString()
      const id = flags & 6 ? body.number(2) : null
      body.properties()
      this.emit('delivery', { topic, payload: Buffer.from(body.bytes.subarray(body.at)), id })
    } else if (type === PUBACK) {
      this.flying.delete(body.number(2))
      this.flush()
    } else if (type === SUBACK) {
      body.number(2)
      body.properties()
      const reason = body.number(1)
      if (reason > 2) this.end(`no subscription: reason ${reason}`)
      else this.emit('subscribed')
    } else if (type === DISCONNECT) {
      this.end(`ended by the relay, reason ${body.bytes[0] ?? 0}`)
    }
  }

  id() {
    do this.nextId = (this.nextId % 65535) + 1
    while (this.flying.has(this.nextId))
    return this.nextId
  }

  subscribe(topic) {
    const noRetained = 0x20 // Retain Handling 2
    this.socket.write(packet(SUBSCRIBE, 2, number(this.id(), 2), properties([]), sized(topic), Buffer.from([1 | noRetained])))
  }

  /** False where the relay takes no packet of that size */
  publish(topic, payload, { expiry = null } = {}) {
    const build = id => packet(PUBLISH, 2, sized(topic), number(id, 2), properties(expiry === null ? [] : [[MESSAGE_EXPIRY, expiry]]), payload)
    if (!this.up || build(1).length > this.maximumPacket) return false
    this.queue.push(build)
    this.flush()
    return true
  }

  flush() {
    while (this.up && this.queue.length && this.flying.size < this.receiveMaximum) {
      const id = this.id()
      this.flying.add(id)
      this.socket.write(this.queue.shift()(id))
    }
  }

  acknowledge({ id }) {
    if (id !== null && this.up) this.socket.write(packet(PUBACK, 0, number(id, 2)))
  }

  disconnect() {
    if (this.up) this.socket.end(packet(DISCONNECT, 0))
  }

  end(why) {
    if (this.ended) return
    this.ended = true
    this.up = false
    clearInterval(this.pings)
    this.socket.destroy()
    this.emit('close', why)
  }
}

module.exports = { Connection }
