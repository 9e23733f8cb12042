// Deterministic CBOR: section 1 of docs/protocol/core.md, whose list of refusals is numbered as the comments here.
'use strict'

class Refused extends Error {
  constructor(code, why = code) {
    super(why)
    this.code = code
  }
}
const malformed = why => new Refused('malformed', why)
const limit = why => new Refused('limit', why)

const MAXIMUM_DEPTH = 8
const MAXIMUM_ITEMS = 65536
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const whole = big => (big >= -9007199254740991n && big <= 9007199254740991n ? Number(big) : big)

class Reader {
  constructor(bytes, most) {
    this.bytes = bytes
    this.at = 0
    this.items = 0
    this.most = most
  }

  take(length) {
    if (length > this.bytes.length - this.at) throw malformed('truncated')
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }

  head() {
    const first = this.take(1)[0]
    const info = first & 31
    if (info < 24) return [first >> 5, BigInt(info)]
    if (info > 27) throw malformed('reserved head or indefinite length') // 2
    const raw = this.take(1 << (info - 24))
    const value = BigInt('0x' + raw.toString('hex'))
    const shortest = [24n, 0x100n, 0x10000n, 0x100000000n][info - 24]
    if (value < shortest) throw malformed('not in its shortest form') // 2
    return [first >> 5, value]
  }

  item(depth) {
    const start = this.at
    const [major, value] = this.head()
    if (++this.items > this.most) throw limit('items') // 9
    switch (major) {
      case 0:
      case 1:
        if (value >= 1n << 63n) throw malformed('integer') // 4
        return whole(major ? -1n - value : value)
      case 2:
        return Buffer.from(this.take(Number(value)))
      case 3:
        try {
          return utf8.decode(this.take(Number(value)))
        } catch {
          throw malformed('text') // 5
        }
      case 4:
      case 5:
        return this.container(major, Number(value), depth + 1)
      case 7:
        if (this.at - start === 1 && value >= 20n && value <= 22n) return [false, true, null][Number(value) - 20]
    }
    throw malformed('tag, float or simple value') // 3
  }

  container(major, count, depth) {
    if (depth > MAXIMUM_DEPTH) throw limit('depth') // 8
    if (count * (major - 3) > this.bytes.length - this.at) throw malformed('truncated') // before memory is set aside
    if (major === 4) {
      const array = []
      for (let n = 0; n < count; n++) array.push(this.item(depth))
      return array
    }
    const map = new Map()
    let previous = null
    for (let n = 0; n < count; n++) {
      const start = this.at
      const key = this.item(depth)
      const encoded = this.bytes.subarray(start, this.at)
      if (encoded[0] >> 5 > 3) throw malformed('key') // 7
      if (previous && previous[0] >> 5 !== encoded[0] >> 5) throw malformed('keys of two types') // 7
      if (previous && Buffer.compare(previous, encoded) >= 0) throw malformed('order of keys') // 6
      previous = encoded
      map.set(key, this.item(depth))
    }
    return map
  }
}

/** The one item that `bytes` hold. Integers beyond 2^53 are BigInts, maps are Maps, bytes are Buffers. */
/** The one item that bytes are; `items` is at most how many items it may have in all. */
function decode(bytes, maximum = 1000000, items = MAXIMUM_ITEMS) {
  if (bytes.length > maximum) throw limit('bytes') // 10
  const reader = new Reader(bytes, items)
  const value = reader.item(0)
  if (reader.at !== bytes.length) throw malformed('bytes after it') // 1
  return value
}

function head(major, value) {
  const number = BigInt(value)
  if (number < 24n) return Buffer.from([(major << 5) | Number(number)])
  const width = number < 0x100n ? 0 : number < 0x10000n ? 1 : number < 0x100000000n ? 2 : 3
  return Buffer.from(((major << 5) | (24 + width)).toString(16).padStart(2, '0') + number.toString(16).padStart(2 << width, '0'), 'hex')
}

function encode(value) {
  if (typeof value === 'boolean' || value === null) return Buffer.from([value === null ? 0xf6 : value ? 0xf5 : 0xf4])
  if (typeof value === 'number' || typeof value === 'bigint') {
    return value < 0 ? head(1, -1n - BigInt(value)) : head(0, value)
  }
  if (typeof value === 'string') {
    const text = Buffer.from(value, 'utf8')
    return Buffer.concat([head(3, text.length), text])
  }
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value])
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(encode)])
  const pairs = [...value].map(([key, content]) => [encode(key), encode(content)])
  pairs.sort((one, other) => Buffer.compare(one[0], other[0]))
  return Buffer.concat([head(5, pairs.length), ...pairs.flat()])
}

module.exports = { Refused, decode, encode, limit, malformed }
