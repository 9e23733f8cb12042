// Sections 2, 4 and 26: what the hashes, signatures and boxes of suite 1 are. Ed25519, X25519 and ChaCha20-Poly1305 are Node's own;
// what it lacks (personalised BLAKE2b, Salsa20, HChaCha20, a bare Poly1305) stands here, so that this device depends on no package.
'use strict'
const crypto = require('node:crypto')
const { Refused } = require('./cbor.js')

// BLAKE2b (RFC 7693), on halves of 32 bits, the lower one first: BigInt would be ten times as slow.
const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
])
const SIGMA = [
  '0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8', '905724afe1bc683d',
  '2c6a0b834d75fe19', 'c51fed4a0763928b', 'db7ec13950f4862a', '6fe9b308c2d714a5', 'a2847615fb9e3cd0',
].map(row => [...row].map(digit => parseInt(digit, 16)))
const v = new Uint32Array(32)
const m = new Uint32Array(32)

function add(a, low, high) {
  const sum = v[a] + low
  v[a + 1] = v[a + 1] + high + (sum > 0xffffffff ? 1 : 0)
  v[a] = sum
}

/** v[d] = (v[d] ^ v[a]) turned right by `bits` */
function turn(d, a, bits) {
  let low = v[d] ^ v[a]
  let high = v[d + 1] ^ v[a + 1]
  if (bits >= 32) [low, high, bits] = [high, low, bits - 32]
  v[d] = bits ? (low >>> bits) | (high << (32 - bits)) : low
  v[d + 1] = bits ? (high >>> bits) | (low << (32 - bits)) : high
}

function mix(a, b, c, d, x, y) {
  add(a, v[b], v[b + 1])
  add(a, m[x], m[x + 1])
  turn(d, a, 32)
  add(c, v[d], v[d + 1])
  turn(b, c, 24)
  add(a, v[b], v[b + 1])
  add(a, m[y], m[y + 1])
  turn(d, a, 16)
  add(c, v[d], v[d + 1])
  turn(b, c, 63)
}

function compress(h, block, counted, last) {
  v.set(h)
  v.set(IV, 16)
  v[24] ^= counted
  v[25] ^= counted / 0x100000000
  if (last) {
    v[28] = ~v[28]
    v[29] = ~v[29]
  }
  for (let n = 0; n < 32; n++) m[n] = block.readUInt32LE(4 * n)
  for (let round = 0; round < 12; round++) {
    const s = SIGMA[round % 10]
    mix(0, 8, 16, 24, 2 * s[0], 2 * s[1])
    mix(2, 10, 18, 26, 2 * s[2], 2 * s[3])
    mix(4, 12, 20, 28, 2 * s[4], 2 * s[5])
    mix(6, 14, 22, 30, 2 * s[6], 2 * s[7])
    mix(0, 10, 20, 30, 2 * s[8], 2 * s[9])
    mix(2, 12, 22, 24, 2 * s[10], 2 * s[11])
    mix(4, 14, 16, 26, 2 * s[12], 2 * s[13])
    mix(6, 8, 18, 28, 2 * s[14], 2 * s[15])
  }
  for (let n = 0; n < 16; n++) h[n] ^= v[n] ^ v[n + 16]
}

function blake2b(content, person, size = 32) {
  const parameters = Buffer.alloc(64)
  parameters[0] = size
  parameters[2] = parameters[3] = 1
  parameters.write(person, 48, 'ascii')
  const h = IV.slice()
  for (let n = 0; n < 16; n++) h[n] ^= parameters.readUInt32LE(4 * n)
  const blocks = Math.max(1, Math.ceil(content.length / 128))
  const padded = Buffer.alloc(128 * blocks)
  padded.set(content)
  for (let n = 0; n < blocks; n++) {
    const last = n === blocks - 1
    compress(h, padded.subarray(128 * n, 128 * n + 128), last ? content.length : 128 * (n + 1), last)
  }
  const out = Buffer.alloc(64)
  h.forEach((word, n) => out.writeUInt32LE(word, 4 * n))
  return out.subarray(0, size)
}

// Ed25519 and X25519. Node takes keys in their DER wrapping alone.
const ED = ['302e020100300506032b657004220420', '302a300506032b6570032100'].map(hex => Buffer.from(hex, 'hex'))
const X = ['302e020100300506032b656e04220420', '302a300506032b656e032100'].map(hex => Buffer.from(hex, 'hex'))
const secretKey = (wrap, raw) => crypto.createPrivateKey({ key: Buffer.concat([wrap[0], raw]), format: 'der', type: 'pkcs8' })
const publicKey = (wrap, raw) => crypto.createPublicKey({ key: Buffer.concat([wrap[1], raw]), format: 'der', type: 'spki' })
const publicHalf = (wrap, secret) =>
  crypto.createPublicKey(secretKey(wrap, secret)).export({ format: 'der', type: 'spki' }).subarray(wrap[1].length)
const edPublic = seed => publicHalf(ED, seed)
const xPublic = secret => publicHalf(X, secret)

const P = 2n ** 255n - 19n
const little = bytes => BigInt('0x' + (Buffer.from(bytes).reverse().toString('hex') || '0'))
// y of the points of order 1, 2, 4 and 8; their x may have either sign
const SMALL_Y = new Set([
  0n, 1n, P - 1n,
  little(Buffer.from('26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05', 'hex')),
  little(Buffer.from('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a', 'hex')),
])
/** A point that RFC 8032 allows to be written so, and that is not of small order */
function strictPoint(bytes) {
  const y = little(bytes) & (2n ** 255n - 1n)
  return y < P && !SMALL_Y.has(y)
}

const domainOf = domain => Buffer.from(domain + '\0', 'ascii')
const sign = (seed, domain, content) => crypto.sign(null, Buffer.concat([domainOf(domain), content]), secretKey(ED, seed))

function verifyRaw(key, content, signature) {
  if (signature.length !== 64 || !strictPoint(key) || !strictPoint(signature.subarray(0, 32))) return false
  try {
    return crypto.verify(null, content, publicKey(ED, key), signature)
  } catch {
    return false
  }
}

function verify(key, domain, content, signature) {
  if (!verifyRaw(key, Buffer.concat([domainOf(domain), content]), signature)) throw new Refused('signature')
}

/** The shared secret, or null where the key is not usable (section 2) */
function agree(secret, key) {
  if (little(key) >= P) return null
  try {
    return crypto.diffieHellman({ privateKey: secretKey(X, secret), publicKey: publicKey(X, key) })
  } catch {
    return null // of small order: the shared secret is zero
  }
}
const PROBE = Buffer.alloc(32, 7)
const usable = key => agree(PROBE, key) !== null

// Salsa20 and its relatives. `quarter` gives the pattern of one family, `at` where a double round looks.
const turned = (x, bits) => (x << bits) | (x >>> (32 - bits))
function salsaRounds(x) {
  const quarter = (a, b, c, d) => {
    x[b] ^= turned(x[a] + x[d], 7)
    x[c] ^= turned(x[b] + x[a], 9)
    x[d] ^= turned(x[c] + x[b], 13)
    x[a] ^= turned(x[d] + x[c], 18)
  }
  for (let round = 0; round < 10; round++) {
    quarter(0, 4, 8, 12), quarter(5, 9, 13, 1), quarter(10, 14, 2, 6), quarter(15, 3, 7, 11)
    quarter(0, 1, 2, 3), quarter(5, 6, 7, 4), quarter(10, 11, 8, 9), quarter(15, 12, 13, 14)
  }
}
function chachaRounds(x) {
  const quarter = (a, b, c, d) => {
    x[a] += x[b], (x[d] = turned(x[d] ^ x[a], 16))
    x[c] += x[d], (x[b] = turned(x[b] ^ x[c], 12))
    x[a] += x[b], (x[d] = turned(x[d] ^ x[a], 8))
    x[c] += x[d], (x[b] = turned(x[b] ^ x[c], 7))
  }
  for (let round = 0; round < 10; round++) {
    quarter(0, 4, 8, 12), quarter(1, 5, 9, 13), quarter(2, 6, 10, 14), quarter(3, 7, 11, 15)
    quarter(0, 5, 10, 15), quarter(1, 6, 11, 12), quarter(2, 7, 8, 13), quarter(3, 4, 9, 14)
  }
}
const SIGMA_WORDS = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]
const words = bytes => Array.from({ length: bytes.length / 4 }, (_, n) => bytes.readUInt32LE(4 * n))
function bytesOf(list) {
  const out = Buffer.alloc(4 * list.length)
  list.forEach((word, n) => out.writeUInt32LE(word >>> 0, 4 * n))
  return out
}
function salsaState(key, input) {
  const k = words(key)
  const [s0, s1, s2, s3] = SIGMA_WORDS
  return new Int32Array([s0, ...k.slice(0, 4), s1, ...words(input), s2, ...k.slice(4), s3])
}
function hsalsa20(key, input) {
  const x = salsaState(key, input)
  salsaRounds(x)
  return bytesOf([0, 5, 10, 15, 6, 7, 8, 9].map(n => x[n]))
}
function hchacha20(key, input) {
  const x = new Int32Array([...SIGMA_WORDS, ...words(key), ...words(input)])
  chachaRounds(x)
  return bytesOf([0, 1, 2, 3, 12, 13, 14, 15].map(n => x[n]))
}
function xsalsa20(key, nonce, length) {
  const inner = hsalsa20(key, nonce.subarray(0, 16))
  const input = Buffer.alloc(16)
  nonce.copy(input, 0, 16, 24)
  const out = Buffer.alloc(64 * Math.ceil(length / 64))
  for (let block = 0; 64 * block < length; block++) {
    input.writeUInt32LE(block, 8)
    const begun = salsaState(inner, input)
    const x = begun.slice()
    salsaRounds(x)
    for (let n = 0; n < 16; n++) out.writeInt32LE((x[n] + begun[n]) | 0, 64 * block + 4 * n)
  }
  return out.subarray(0, length)
}

const PRIME_1305 = 2n ** 130n - 5n
function poly1305(key, content) {
  const r = little(key.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn
  let sum = 0n
  for (let at = 0; at < content.length; at += 16) {
    const block = content.subarray(at, at + 16)
    sum = ((sum + little(block) + (1n << BigInt(8 * block.length))) * r) % PRIME_1305
  }
  const tag = (sum + little(key.subarray(16))) & (2n ** 128n - 1n)
  return Buffer.from(tag.toString(16).padStart(32, '0'), 'hex').reverse()
}

/** NaCl crypto_secretbox: authenticator || ciphertext */
function secretbox(plain, nonce, key) {
  const stream = xsalsa20(key, nonce, 32 + plain.length)
  const sealed = Buffer.from(plain.map((byte, n) => byte ^ stream[32 + n]))
  return Buffer.concat([poly1305(stream.subarray(0, 32), sealed), sealed])
}
function secretboxOpen(box, nonce, key) {
  if (box.length < 16) throw new Refused('decryption')
  const stream = xsalsa20(key, nonce, 16 + box.length)
  const sealed = box.subarray(16)
  if (!crypto.timingSafeEqual(poly1305(stream.subarray(0, 32), sealed), box.subarray(0, 16))) throw new Refused('decryption')
  return Buffer.from(sealed.map((byte, n) => byte ^ stream[32 + n]))
}
function boxKey(secret, key) {
  const shared = agree(secret, key)
  if (!shared) throw new Refused('decryption')
  return hsalsa20(shared, Buffer.alloc(16))
}
const box = (plain, nonce, key, secret) => secretbox(plain, nonce, boxKey(secret, key))
const boxOpen = (sealed, nonce, key, secret) => secretboxOpen(sealed, nonce, boxKey(secret, key))

const xchachaNonce = nonce => Buffer.concat([Buffer.alloc(4), nonce.subarray(16)])
function xchacha(plain, nonce, key, associated) {
  const cipher = crypto.createCipheriv('chacha20-poly1305', hchacha20(key, nonce.subarray(0, 16)), xchachaNonce(nonce), { authTagLength: 16 })
  cipher.setAAD(associated, { plaintextLength: plain.length })
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}
function xchachaOpen(sealed, nonce, key, associated) {
  if (sealed.length < 16) throw new Refused('decryption')
  const inner = hchacha20(key, nonce.subarray(0, 16))
  const decipher = crypto.createDecipheriv('chacha20-poly1305', inner, xchachaNonce(nonce), { authTagLength: 16 })
  decipher.setAAD(associated, { plaintextLength: sealed.length - 16 })
  decipher.setAuthTag(sealed.subarray(-16))
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()])
  } catch {
    throw new Refused('decryption')
  }
}

module.exports = {
  agree, blake2b, box, boxOpen, edPublic, hsalsa20, secretbox, secretboxOpen, sign, usable, verify, verifyRaw, xPublic, xchacha, xchachaOpen,
}
