// Runs one test of each vector, and counts.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { Refused } = require('./cbor.js')

const HERE = path.join(__dirname, '..', '..', 'vectors')

/** What JSON spells: {"int": decimal} is a number that readers of JSON round, {"bytes": hex} bytes, {"map": pairs} a map. */
function revive(_, value) {
  if (value && typeof value === 'object' && Object.keys(value).length === 1) {
    if ('int' in value) return Number.isSafeInteger(Number(value.int)) ? Number(value.int) : BigInt(value.int)
    if (typeof value.bytes === 'string') return Buffer.from(value.bytes, 'hex')
    if (Array.isArray(value.map)) return new Map(value.map)
  }
  return value
}
const load = name => JSON.parse(fs.readFileSync(path.join(HERE, name + '.json'), 'utf8'), revive)

function octets(entry, key) {
  const [unit, times] = entry[key + '_repeat'] ?? ['', 0]
  return Buffer.concat([Buffer.from(entry[key], 'hex'), Buffer.alloc(times * (unit.length / 2), unit, 'hex')])
}

/** As text: bytes in hex, so that two values can be compared and shown */
function plain(value) {
  return JSON.stringify(value ?? null, function spell(key) {
    const raw = this[key]
    if (Buffer.isBuffer(raw)) return raw.toString('hex')
    if (typeof raw === 'bigint') return raw <= Number.MAX_SAFE_INTEGER && raw >= -Number.MAX_SAFE_INTEGER ? Number(raw) : String(raw)
    if (raw instanceof Map) return { map: [...raw] }
    if (Object.is(raw, -0)) return 0
    return raw
  })
}
const codeOf = action => {
  try {
    action()
    return null
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return error.code
  }
}

class Count {
  constructor() {
    this.files = new Map()
    this.failures = []
    this.file = ''
  }

  in(file) {
    this.file = file
    return load(file)
  }

  /** One vector: what `test` gives must be undefined, or a pair of values that are the same. */
  one(name, test) {
    this.files.set(this.file, (this.files.get(this.file) ?? 0) + 1)
    let trouble = null
    try {
      const result = test()
      if (result) {
        const [found, expected] = result.map(plain)
        if (found !== expected) trouble = `${found.slice(0, 600)}\n     is not ${expected.slice(0, 600)}`
      }
    } catch (error) {
      trouble = error instanceof Refused ? `refused as ${error.code}: ${error.message}` : error.stack
    }
    if (trouble) this.failures.push(`${this.file}: ${name}: ${trouble}`)
  }

  /** A vector with a code must be refused so; of one without, `accepted` says more. */
  entry(entry, action, accepted = () => {}) {
    this.one(entry.name, () => {
      if (entry.code) return [codeOf(action), entry.code]
      return accepted(action())
    })
  }

  report() {
    for (const failure of this.failures) console.error('FAILED ' + failure)
    for (const [file, count] of this.files) console.log(`${file}: ${count}`)
    const all = [...this.files.values()].reduce((sum, count) => sum + count, 0)
    console.log(`${all - this.failures.length} of ${all} vectors passed`)
    return this.failures.length === 0
  }
}

module.exports = { Count, codeOf, load, octets, plain }
