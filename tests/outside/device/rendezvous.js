// Section 36: rendezvous messages, the keys of a ceremony, and what is sealed by them.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { decode, encode, limit, malformed } = require('./cbor.js')
const { readInviteBytes } = require('./invites.js')
const { noiseKey } = require('./messages.js')
const { blake2b, sign, verify, xchacha, xchachaOpen } = require('./primitives.js')
const { ascendingBytes, boolean, exactly, hash, integer, key, list, octets, orNull, signature, structure, text, tuple } = require('./shapes.js')

const MAXIMUM_BYTES = 32768
const KINDS = { OFFER: 1, ANSWER: 2, PROOF: 3, WELCOME: 4, OUTCOME: 5, FAREWELL: 6, REFUSAL: 7 }
const REASONS = [null, 'code_taken', 'wrong_code', 'code_expired', 'cancelled', 'declined', 'failed']
const sealed = octets(MAXIMUM_BYTES)
const SHAPES = {
  [KINDS.OFFER]: { password: integer(0, 1) },
  [KINDS.ANSWER]: { element: exactly(32), commitment: hash },
  [KINDS.PROOF]: { element: exactly(32), confirmation: hash, sealed },
  [KINDS.WELCOME]: { confirmation: hash, sealed },
  [KINDS.OUTCOME]: { sealed },
  [KINDS.FAREWELL]: { sealed },
  [KINDS.REFUSAL]: { reason: integer(1, 255) }, // one that is not known ends as `failed` (section 34)
}

/** {kind, session, …}: a message as it came, with the names of its kind's fields */
function readRendezvous(bytes) {
  if (bytes.length > MAXIMUM_BYTES) throw limit('rendezvous message')
  const value = decode(bytes, MAXIMUM_BYTES)
  const shapes = Array.isArray(value) && typeof value[1] === 'number' ? SHAPES[value[1]] : null
  if (!shapes) throw malformed('kind')
  const [[, kind, session, ...fields]] = structure(value, [integer(1, 1), integer(1, 7), hash, ...Object.values(shapes)])
  return { kind, session, ...Object.fromEntries(Object.keys(shapes).map((name, n) => [name, fields[n]])) }
}

const writeRendezvous = (kind, session, ...fields) => encode([1, kind, session, ...fields])

const sessionOf = (element, signing, noise) => blake2b(Buffer.concat([element, signing, noise]), 'covey/1 pair cb')
const commitmentOf = (session, element, signing, noise) => blake2b(Buffer.concat([session, element, signing, noise]), 'covey/1 pair ca')

// BIP-39's English list: 2,048 words, which differ in their first four letters
const words = () => fs.readFileSync(path.join(__dirname, 'words.txt'), 'utf8').trim().split('\n')
const wordsAt = places => places.map(place => words()[place])
/** The word that a text is, or whose first four letters it is; null where there is none */
const wordOf = text => words().find(word => word === text || (text.length === 4 && word.startsWith(text))) ?? null

/** What both derive from K; `isInviter` says whose confirmation or key is meant. */
class CeremonyKeys {
  constructor(shared, session, commitment) {
    Object.assign(this, { session, commitment, root: blake2b(Buffer.concat([shared, session, commitment]), 'covey/1 pair key') })
  }

  confirmation(isInviter) {
    return blake2b(this.root, isInviter ? 'covey/1 pair cfa' : 'covey/1 pair cfb')
  }

  key(isInviter) {
    return blake2b(this.root, isInviter ? 'covey/1 pair ka' : 'covey/1 pair kb')
  }

  seal(isInviter, kind, content) {
    return xchacha(content, nonceOf(kind), this.key(isInviter), this.session)
  }

  open(isInviter, kind, content) {
    return xchachaOpen(content, nonceOf(kind), this.key(isInviter), this.session)
  }

  introduce(isInviter, kind, who, seed) {
    const mark = sign(seed, 'covey/1 pairing', Buffer.concat([this.confirmation(isInviter), who]))
    return this.seal(isInviter, kind, encode([who, mark]))
  }

  /** Who introduces itself in a proof or a welcome; the signature is that of the key which it names. */
  introduced(isInviter, kind, content) {
    const [[who, mark]] = structure(decode(this.open(isInviter, kind, content)), [octets(MAXIMUM_BYTES), signature])
    const found = isInviter ? readInviter(who) : readJoiner(who)
    verify(found.signing, 'covey/1 pairing', Buffer.concat([this.confirmation(isInviter), who]), mark)
    return found
  }

  /** Four places in the list of words; each side's two keys are signing || noise. */
  verifier(inviter, joiner) {
    const bits = BigInt('0x' + blake2b(Buffer.concat([this.root, inviter, joiner]), 'covey/1 pair vfy').toString('hex')) >> 212n
    return [33n, 22n, 11n, 0n].map(shift => Number((bits >> shift) & 2047n))
  }
}

function nonceOf(kind) {
  const nonce = Buffer.alloc(24)
  nonce[0] = kind
  return nonce
}

const picture = tuple(text(127), octets(49152))
const preview = value => structure(value, [text(128), integer(0, 1000), list(tuple(key, text(64)), 16), text(4096), orNull(picture)])[0]

function readInviter(who) {
  const shapes = [key, noiseKey, text(64), key, preview]
  const [[signing, noise, label, groupId, [title, count], operators = []]] = structure(decode(who), shapes, {
    optional: [ascendingBytes(key, 8, 1)],
  })
  return { signing, noise, label, groupId, title, count, operators }
}

function readJoiner(who) {
  const [[signing, noise, label, needsCredential]] = structure(decode(who), [key, noiseKey, text(64), boolean])
  return { signing, noise, label, needsCredential }
}

/** {reason} or {relayUrl, certificates, credential, invite}: what an outcome holds */
function readOutcome(content) {
  const value = decode(content, MAXIMUM_BYTES)
  if (Array.isArray(value) && value[0] === 1) {
    const [[, reason]] = structure(value, [integer(1, 1), integer(1, 255)])
    return { reason: REASONS[reason] ?? 'failed' }
  }
  const [[, relayUrl, certificates, credential, invite]] = structure(value, [
    integer(0, 0), text(512), text(16384), text(8192), octets(1024),
  ])
  return { relayUrl, certificates, credential, invite: readInviteBytes(invite) }
}

module.exports = { CeremonyKeys, KINDS, REASONS, commitmentOf, readOutcome, readRendezvous, sessionOf, wordOf, wordsAt, writeRendezvous }
