// Section 10: invites as a device reads them. Whatever is wrong with one is `local`: a person handed it over.
'use strict'
const { Refused, decode, encode, malformed } = require('./cbor.js')
const { noiseKey } = require('./messages.js')
const { blake2b } = require('./primitives.js')
const { ascendingBytes, exactly, integer, key, list, octets, orNull, read, structure, text, tuple, uint63 } = require('./shapes.js')

const SCHEME = 'covey://join/1/'
const MAXIMUM_INVITE_BYTES = 1536

const enrolmentPassword = value => {
  if (text(64)(value) === '') throw malformed('empty password')
  return value
}
const rendezvousNumber = integer(1, 9999)

const relayAddresses = value => {
  const found = list(text(128), 4)(value)
  if (!found.length || new Set(found).size < found.length) throw malformed('addresses')
  return found
}

/** An invite as it stands in an admission, and within its URI */
function readInviteBytes(bytes) {
  const value = decode(bytes, MAXIMUM_INVITE_BYTES)
  const shapes = [integer(1, 1), exactly(32), key, key, exactly(16), uint63, text(512)]
  const length = Array.isArray(value) ? value.length - (value.length > 7 && value.at(-1) instanceof Map) : 0
  const all = [rendezvousNumber, enrolmentPassword, ascendingBytes(key, 8, 1), relayAddresses]
  const optional = all.map((each, place) => (place < length - 8 ? orNull(each) : each)) // the last field is there
  const [fields] = structure(value, shapes, { optional })
  const [, groupId, inviter, noise, secret, expiresAt, relayUrl, rendezvous = null, enrolment = null, operators, addresses] = fields
  if (rendezvous === null && enrolment !== null) throw malformed('a password for no rendezvous')
  return { groupId, inviter, noise, secret, expiresAt, relayUrl, rendezvous, enrolment, operators: operators ?? [], addresses: addresses ?? [] }
}

function readInvite(uri) {
  try {
    if (!uri.startsWith(SCHEME)) throw malformed('scheme')
    const words = uri.slice(SCHEME.length)
    if (!/^[A-Za-z0-9_-]+$/.test(words)) throw malformed('base64url')
    const bytes = Buffer.from(words, 'base64url')
    if (bytes.toString('base64url') !== words) throw malformed('base64url')
    return readInviteBytes(bytes)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    throw new Refused('local', error.message)
  }
}

/** The URI of an invite of a member that neither gives accounts nor names operators */
function writeInvite({ groupId, inviter, noise, secret, expiresAt, relayUrl }) {
  return SCHEME + encode([1, groupId, inviter, noise, secret, expiresAt, relayUrl]).toString('base64url')
}

const inviteId = secret => blake2b(secret, 'covey/1 invite')

/** [secret, noise key, expires at, preview]: an invitation to a further group (section 36) */
function readGroupInvite(bytes) {
  const picture = value => {
    const [mime, content] = tuple(text(127), octets(49152))(value)
    if (!/^image\/[!-~]+$/.test(mime)) throw malformed('picture')
    return [mime, content]
  }
  const preview = value => structure(value, [
    text(128), integer(0, 1000), list(tuple(key, text(64)), 16), text(4096), orNull(picture),
  ])[0]
  const bound = 55391
  const [[secret, noise, expiresAt, seen]] = structure(read(bytes, bound), [exactly(16), noiseKey, uint63, preview])
  return { secret, noise, expiresAt, preview: seen }
}

/** A request for an invite (section 36): its group id says everything. */
function checkInviteRequest(bytes) {
  structure(read(bytes, 64), [])
  return true
}

module.exports = { checkInviteRequest, inviteId, readGroupInvite, readInvite, readInviteBytes, writeInvite }
