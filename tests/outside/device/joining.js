// Sections 10 and 36: how this device asks to be let in, by an invite or by a word code.
'use strict'
const { Refused, encode } = require('./cbor.js')
const { Holding } = require('./holdings.js')
const { readInvite } = require('./invites.js')
const { Joiner } = require('./joiner.js')
const { hexOf } = require('./manifests.js')
const { Connection } = require('./mqtt.js')
const { wordOf } = require('./rendezvous.js')

const TICK_MS = 100
const RECONNECT_MS = 1000
const ENROLMENT = 'enrol' // the account and, where nothing else is given, its password

/** {code, number, enrolment, relay} of `<number>-<word>-<word>-<word>[-<password>][@<host>[:<port>]]` */
function readCode(text) {
  const match = /^(\d{1,4})-([a-z]+)-([a-z]+)-([a-z]+)(?:-([a-z0-9]+))?(?:@(\S+))?$/.exec(text.trim().toLowerCase().replace(/ +/g, '-'))
  const words = match?.slice(2, 5).map(wordOf)
  if (!match || words.includes(null) || !Number(match[1])) throw new Refused('local', `no code: ${text}`)
  const number = String(Number(match[1]))
  return { code: [number, ...words].join('-'), number, enrolment: match[5] ?? ENROLMENT, relay: match[6] ? 'mqtts://' + match[6] : null }
}

function isLoopback(url) {
  try {
    return /^(localhost|127\..*|\[::1\])$/.test(new URL(url).hostname)
  } catch {
    return true // none at all
  }
}

class Joining {
  constructor(device, features) {
    Object.assign(this, { device, features })
  }

  /** By a URI: at once, or, without an account at the relay, by a ceremony with its secret */
  byInvite(uri) {
    const invite = readInvite(uri)
    if (!this.isNews(invite)) return
    if (this.device.account() || invite.rendezvous === null) return this.ask(invite, invite.operators)
    const { secret, inviter, noise, rendezvous: number, enrolment, relayUrl } = invite
    const relay = this.device.options.relay ?? relayUrl
    return this.meet({ number, enrolment: enrolment ?? ENROLMENT, relay, secret, expected: { inviter, noise } })
  }

  byCode(text) {
    const { code, number, enrolment, relay } = readCode(text)
    if (this.device.store.get('paired') === code) return
    this.meet({ number, enrolment, relay: relay ?? this.device.options.relay, code })
  }

  isNews({ groupId, secret }) {
    const { holdings, store } = this.device
    const id = hexOf(groupId)
    return !holdings.get(id)?.graph && store.get('group/' + id)?.secret !== hexOf(secret)
  }

  /** Section 10, *Invites*, 2: what was asked, and of whom, is stored before the request goes. */
  ask(invite, operators, more = []) {
    const { device } = this
    const { groupId, inviter, noise, secret, relayUrl: relay, expiresAt } = invite
    if (BigInt(device.now()) * 1000n > BigInt(expiresAt)) throw new Refused('local', 'the invite has expired')
    const id = hexOf(groupId)
    const about = {
      inviter: hexOf(inviter), inviterNoise: hexOf(noise), secret: hexOf(secret), relay,
      operators: device.options.obeyInvite ? operators.map(hexOf) : [],
    }
    const tx = device.links.transaction()
    tx.set('group/' + id, about)
    for (const [name, value] of more) tx.set(name, value)
    const body = encode([secret, device.identity.noise[0].public, device.options.label, new Map([[1, this.features]])])
    device.links.queue(tx, { to: about.inviter, groupId, type: 'JOIN', body })
    tx.commit()
    device.holdings.set(id, new Holding(id, device.store, device.identity))
  }

  /** A ceremony at a rendezvous of the relay */
  meet({ number, enrolment, relay, code = null, secret = null, expected = null }) {
    if (!relay) throw new Refused('local', 'no relay: give --relay')
    const { device } = this
    const account = device.account()
    const joiner = new Joiner(device.identity, { code, secret, label: device.options.label, needsCredential: !account, expected }, Date.now())
    this.meeting = { joiner, number, relay, code, user: ENROLMENT, password: enrolment }
    this.connect()
    this.meeting.timer = setInterval(() => this.look(), TICK_MS)
  }

  connect() {
    const { meeting, device } = this
    const { certificates } = device.options
    const { user, password, relay, number, joiner } = meeting
    const connection = new Connection(relay, { user, password, certificates, anyRelay: !certificates, sessionExpiry: 0 })
    connection.on('connect', () => connection.subscribe(`covey/1/pair/${number}/b`))
    connection.on('subscribed', () => (meeting.ready = true))
    connection.on('delivery', delivery => {
      connection.acknowledge(delivery)
      try {
        joiner.receive(delivery.payload, Date.now())
      } catch (error) {
        if (!(error instanceof Refused)) throw error // dropped: anybody may write here
      }
      this.look()
    })
    connection.on('close', why => {
      meeting.ready = false
      if (this.meeting !== meeting) return
      device.say({ event: 'offline', why })
      setTimeout(() => this.meeting === meeting && this.connect(), RECONNECT_MS)
    })
    meeting.connection = connection
  }

  look() {
    const { meeting, device } = this
    if (!meeting?.ready) return
    const { joiner, connection, number } = meeting
    if (joiner.welcome && !meeting.shown) {
      meeting.shown = true
      const { verifier, signing, label, title, count, operators } = joiner.welcome
      device.say({ event: 'verifier', words: verifier, inviter: hexOf(signing), label, title, members: count, operators: operators.map(hexOf) })
    }
    if (joiner.named && meeting.named !== joiner.named) {
      meeting.named = joiner.named // it ends nothing: anybody may say so
      device.say({ event: 'refusal', reason: joiner.named })
    }
    if (joiner.admission && !joiner.ended(Date.now())) {
      this.admitted(joiner, meeting)
      joiner.stored()
    }
    for (const raw of joiner.toSend(Date.now())) connection.publish(`covey/1/pair/${number}/a`, raw)
    const ending = joiner.ended(Date.now())
    if (!ending) return
    clearInterval(meeting.timer)
    this.meeting = null
    connection.disconnect()
    device.say({ event: 'pairing', ended: ending })
    if (ending === 'paired') device.begin()
    else device.end(1)
  }

  /** Credential and request are stored in one commit; the operators are those of the welcome, which were shown. */
  admitted({ admission, welcome }, { relay: cameBy, code }) {
    const { relayUrl, certificates, credential, invite } = admission
    const url = isLoopback(relayUrl) ? cameBy : relayUrl
    const account = credential ? [['account', { url, credential, certificates }]] : []
    const again = code ? [['paired', code]] : []
    this.ask({ ...invite, relayUrl: url }, welcome.operators, [...account, ...again])
  }
}

module.exports = { Joining, readCode }
