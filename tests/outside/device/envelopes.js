// Section 4: envelopes, and the padding inside of them.
'use strict'
const crypto = require('node:crypto')
const { Refused, decode, encode, limit, malformed } = require('./cbor.js')
const { box, boxOpen, secretbox, secretboxOpen, xPublic } = require('./primitives.js')
const { exactly, integer, key, octets, tuple, uint63 } = require('./shapes.js')

const MAXIMUM_ENVELOPE_BYTES = 1150000
const MAXIMUM_MESSAGE_BYTES = 1000000

/** The PADMÉ length of `length` bytes */
function padded(length) {
  if (length <= 40) return 40
  const e = Math.floor(Math.log2(length))
  const z = e - (Math.floor(Math.log2(e)) + 1)
  return Math.floor((length + 2 ** z - 1) / 2 ** z) * 2 ** z
}

function pad(message) {
  if (message.length > MAXIMUM_MESSAGE_BYTES) throw limit('message')
  const out = Buffer.alloc(padded(message.length + 1))
  message.copy(out)
  out[message.length] = 0x80
  return out
}

function unpad(plain) {
  let end = plain.length
  while (end && plain[end - 1] === 0) end--
  if (!end || plain[end - 1] !== 0x80 || padded(end) !== plain.length) throw malformed('padding')
  return plain.subarray(0, end - 1)
}

function seal(message, recipientNoise, ephemeral = crypto.randomBytes(32), nonce = crypto.randomBytes(24)) {
  return encode([1, xPublic(ephemeral), nonce, box(pad(message), nonce, recipientNoise, ephemeral)])
}

function counterNonce(tag, counter) {
  const number = Buffer.alloc(8)
  number.writeBigUInt64BE(BigInt(counter))
  return Buffer.concat([tag, Buffer.alloc(8), number])
}

const sealByLink = (message, tag, linkKey, counter) =>
  encode([2, tag, counter, secretbox(pad(message), counterNonce(tag, counter), linkKey)])

/** The X25519 secret that belongs to a signing seed: what a HEADS may be sealed for */
const sealingSecret = seed => crypto.createHash('sha512').update(seed).digest().subarray(0, 32)

/** {message, tag, secret}: what an envelope holds, and the tag or the secret that opened it; `linkKey(tag)` gives a key or null. */
function open(envelope, secrets, linkKey = () => null) {
  if (envelope.length > MAXIMUM_ENVELOPE_BYTES) throw limit('envelope')
  const value = decode(envelope, MAXIMUM_ENVELOPE_BYTES)
  if (!Array.isArray(value) || !value.length) throw malformed('no envelope')
  const form = integer(1, 2n ** 63n)(value[0])
  if (form > 2) throw new Refused('unsupported')
  if (form === 2) {
    const [, tag, counter, ciphertext] = tuple(uint63, exactly(8), uint63, octets(MAXIMUM_ENVELOPE_BYTES))(value)
    const found = linkKey(tag)
    if (!found) throw new Refused('decryption')
    return { message: unpad(secretboxOpen(ciphertext, counterNonce(tag, counter), found)), tag, secret: null }
  }
  const [, ephemeral, nonce, ciphertext] = tuple(uint63, key, exactly(24), octets(MAXIMUM_ENVELOPE_BYTES))(value)
  for (const secret of secrets) {
    let plain
    try {
      plain = boxOpen(ciphertext, nonce, ephemeral, secret)
    } catch {
      continue // a retired key's turn
    }
    return { message: unpad(plain), tag: null, secret }
  }
  throw new Refused('decryption')
}

module.exports = { MAXIMUM_MESSAGE_BYTES, open, padded, seal, sealByLink, sealingSecret }
