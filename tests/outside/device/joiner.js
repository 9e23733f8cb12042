// Section 36, *The joiner*: one ceremony, without a clock or a connection of its own.
'use strict'
const crypto = require('node:crypto')
const { Refused, encode } = require('./cbor.js')
const { CeremonyKeys, KINDS, REASONS, commitmentOf, readOutcome, readRendezvous, sessionOf, wordsAt, writeRendezvous } = require('./rendezvous.js')
const { Spake2 } = require('./spake2.js')

const RESEND_MS = 2000
const TRIES = 4
const TRY_MS = 500
const LINE = 16
const SILENCE_MS = 60000
const LIFE_MS = 600000
const [BY_CODE, BY_SECRET] = [0, 1]
const PARTED_STORED = 0

/** `expected`: the inviter's two keys where a URI names them. `welcome` and `admission` are null until they have come. */
class Joiner {
  constructor(identity, { code = null, secret = null, label, needsCredential, expected = null }, now) {
    const password = secret ?? Buffer.from(code, 'ascii')
    Object.assign(this, { identity, kind: secret ? BY_SECRET : BY_CODE, label, needsCredential, expected })
    Object.assign(this, { password, began: now, heardAt: null, sentAt: -Infinity, answers: new Map(), named: null, ending: null })
    Object.assign(this, { welcome: null, admission: null, farewell: null })
    this.own = [identity.key, identity.noise[0].public]
    this.spake = new Spake2(false, password)
    this.session = sessionOf(this.spake.element, ...this.own)
  }

  /** What is to be said now: its last message, again and again */
  toSend(now) {
    if (this.farewell) return [this.farewell].filter(() => (this.farewell = null) === null)
    if (now - this.sentAt < RESEND_MS || this.admission || this.ended(now)) return []
    this.sentAt = now
    if (!this.answers.size) return [writeRendezvous(KINDS.OFFER, this.session, this.kind)]
    return [...this.answers.values()].slice(-LINE).map(each => each.proof)
  }

  /** Null while the ceremony goes on, else how it has ended */
  ended(now) {
    if (this.ending) return this.ending
    const silent = this.heardAt !== null && now - this.heardAt > SILENCE_MS
    if (silent || now - this.began > LIFE_MS) this.ending = this.named ?? (this.welcome ? 'vanished' : 'code_expired')
    return this.ending
  }

  receive(raw, now) {
    const message = readRendezvous(raw)
    if (!message.session.equals(this.session)) throw new Refused('not_for_us')
    if (message.kind === KINDS.ANSWER) return this.answer(message, now)
    if (message.kind === KINDS.WELCOME) return this.take(message, now)
    if (message.kind === KINDS.OUTCOME && this.keys) return this.conclude(message, now)
    if (message.kind === KINDS.REFUSAL && !this.welcome) this.named = REASONS[message.reason] ?? 'failed'
    return undefined
  }

  answer({ element, commitment }, now) {
    const name = element.toString('hex') + commitment.toString('hex')
    if (this.welcome) return
    if (!this.answers.has(name)) {
      this.first ??= now
      const tries = TRIES + Math.floor((now - this.first) / TRY_MS)
      if (this.taken >= tries) throw new Refused('limit')
      const keys = new CeremonyKeys(this.spake.finish(element), this.session, commitment) // `malformed` where it is no element
      const who = encode([...this.own, this.label, this.needsCredential])
      const sealed = keys.introduce(false, KINDS.PROOF, who, this.identity.signing)
      const proof = writeRendezvous(KINDS.PROOF, this.session, this.spake.element, keys.confirmation(false), sealed)
      this.answers.set(name, { keys, element, proof })
      this.taken = (this.taken ?? 0) + 1
      this.sentAt = -Infinity
    }
    this.heardAt = now
  }

  /** The welcome that proves one of the answers; one that proves none is dropped. */
  take({ confirmation, sealed }, now) {
    for (const { keys, element, proof } of this.answers.values()) {
      if (!crypto.timingSafeEqual(keys.confirmation(true), confirmation)) continue
      const inviter = keys.introduced(true, KINDS.WELCOME, sealed)
      const committed = commitmentOf(this.session, element, inviter.signing, inviter.noise)
      if (!committed.equals(keys.commitment)) throw new Refused('invite')
      const { expected } = this
      if (expected && !(inviter.signing.equals(expected.inviter) && inviter.noise.equals(expected.noise))) throw new Refused('invite')
      this.heardAt = now
      if (this.welcome) return
      this.keys = keys
      this.answers = new Map([['', { keys, element, proof }]])
      const both = [[inviter.signing, inviter.noise], this.own].map(pair => Buffer.concat(pair))
      this.welcome = { ...inviter, verifier: wordsAt(keys.verifier(...both)) }
      return
    }
    throw new Refused('invite')
  }

  conclude({ sealed }, now) {
    const outcome = readOutcome(this.keys.open(true, KINDS.OUTCOME, sealed))
    this.heardAt = now
    if (outcome.reason) {
      this.ending = outcome.reason
      return
    }
    const { invite } = outcome
    const { signing, noise, groupId } = this.welcome
    if (!invite.inviter.equals(signing) || !invite.noise.equals(noise) || !invite.groupId.equals(groupId)) throw new Refused('invite')
    this.admission ??= outcome
  }

  /** Credential and pending join are stored. */
  stored() {
    const parting = this.keys.seal(false, KINDS.FAREWELL, encode([PARTED_STORED]))
    this.farewell = writeRendezvous(KINDS.FAREWELL, this.session, parting)
    this.ending = 'paired'
  }
}

module.exports = { Joiner }
