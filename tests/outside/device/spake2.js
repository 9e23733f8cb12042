// Section 36, *Keys*: SPAKE2 on Ed25519, as the document spells it.
'use strict'
const crypto = require('node:crypto')
const { malformed } = require('./cbor.js')

const P = 2n ** 255n - 19n
const L = 2n ** 252n + 27742317777372353535851937790883648493n
const modulo = (value, by = P) => ((value % by) + by) % by

function power(base, exponent) {
  let result = 1n
  for (let square = modulo(base); exponent; exponent >>= 1n, square = (square * square) % P) if (exponent & 1n) result = (result * square) % P
  return result
}

const inverse = value => power(value, P - 2n)
const D = modulo(-121665n * inverse(121666n))
const ROOT_OF_MINUS_ONE = power(2n, (P - 1n) / 4n)

// Points are [X, Y, Z, T] with x = X/Z, y = Y/Z, xy = T/Z (RFC 8032, section 5.1.4).
const NEUTRAL = [0n, 1n, 1n, 0n]

function add([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = ((y1 - x1) * (y2 - x2)) % P
  const b = ((y1 + x1) * (y2 + x2)) % P
  const c = (2n * t1 * t2 * D) % P
  const d = (2n * z1 * z2) % P
  const [e, f, g, h] = [b - a, d - c, d + c, b + a]
  return [modulo(e * f), modulo(g * h), modulo(f * g), modulo(e * h)]
}

const negative = ([x, y, z, t]) => [modulo(-x), y, z, modulo(-t)]

function times(scalar, point) {
  let result = NEUTRAL
  for (let doubled = point; scalar; scalar >>= 1n, doubled = add(doubled, doubled)) if (scalar & 1n) result = add(result, doubled)
  return result
}

const isNeutral = ([x, y, z]) => x === 0n && y === z

function written([x, y, z]) {
  const inverted = inverse(z)
  const sign = modulo(x * inverted) & 1n
  const number = modulo(y * inverted) | (sign << 255n)
  return Buffer.from(number.toString(16).padStart(64, '0'), 'hex').reverse()
}

function pointOf(bytes) {
  const number = BigInt('0x' + Buffer.from(bytes).reverse().toString('hex'))
  const [y, sign] = [number & (2n ** 255n - 1n), number >> 255n]
  if (y >= P) throw malformed('element')
  const squared = modulo((y * y - 1n) * inverse(D * y * y + 1n))
  let x = power(squared, (P + 3n) / 8n)
  if (modulo(x * x - squared)) x = (x * ROOT_OF_MINUS_ONE) % P
  if (modulo(x * x - squared) || (x === 0n && sign)) throw malformed('element')
  if ((x & 1n) !== sign) x = P - x
  return [x, y, 1n, (x * y) % P]
}

/** An element of another one: in the subgroup of order L, and not the neutral one (`malformed`) */
function elementOf(bytes) {
  const point = pointOf(bytes)
  if (isNeutral(point) || !isNeutral(times(L, point))) throw malformed('element')
  return point
}

const BASE = pointOf(Buffer.from('5866666666666666666666666666666666666666666666666666666666666666', 'hex'))
const [M, N] = [
  '15cfd18e385952982b6a8f8c7854963b58e34388c8e6dae891db756481a02312', 'f04f2e7eb734b2a8f8b472eaf9c3c632576ac64aea650b496a8a20ff00e583c3',
].map(hex => pointOf(Buffer.from(hex, 'hex')))

const sha256 = (...parts) => crypto.createHash('sha256').update(Buffer.concat(parts.map(part => Buffer.from(part)))).digest()
const bigEndian = bytes => BigInt('0x' + Buffer.from(bytes).toString('hex'))

/** One side of one run; `entropy` are 64 random bytes. */
class Spake2 {
  constructor(isInviter, password, entropy = crypto.randomBytes(64)) {
    const w = bigEndian(crypto.hkdfSync('sha256', password, '', 'SPAKE2 pw', 48)) % L
    const [own, theirs] = (isInviter ? [M, N] : [N, M]).map(point => times(w, point))
    Object.assign(this, { isInviter, password, scalar: bigEndian(entropy) % L, theirs })
    this.element = written(add(times(this.scalar, BASE), own))
  }

  /** K, by the element of the other side */
  finish(element) {
    if (element.equals(this.element)) throw malformed('element of one’s own')
    const shared = written(times(this.scalar, add(elementOf(element), negative(this.theirs))))
    const [X, Y] = this.isInviter ? [this.element, element] : [element, this.element]
    return sha256(sha256(this.password), sha256('covey/1 inviter'), sha256('covey/1 joiner'), X, Y, shared)
  }
}

module.exports = { Spake2 }
