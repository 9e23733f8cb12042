// The device: its connections, what it receives (section 8), presence (section 22), telemetry, and the clock.
'use strict'
const crypto = require('node:crypto')
const readline = require('node:readline')
const { Refused, encode } = require('./cbor.js')
const { Comparing } = require('./comparing.js')
const envelopes = require('./envelopes.js')
const heads = require('./heads.js')
const { readHistoryPull, readOperations } = require('./history.js')
const { Holding, bytesOf } = require('./holdings.js')
const { Electing } = require('./electing.js')
const { Issuing } = require('./issuing.js')
const { Joining } = require('./joining.js')
const { Landing } = require('./landing.js')
const { GivenLinkKeys, OwnLinkKeys } = require('./linkkeys.js')
const { Links } = require('./links.js')
const { hexOf, readManifest, readRevoke } = require('./manifests.js')
const messages = require('./messages.js')
const { Connection } = require('./mqtt.js')
const { Obedience } = require('./obedience.js')
const primitives = require('./primitives.js')
const { Store } = require('./store.js')
const { writeTelemetry } = require('./telemetry.js')

const TICK_MS = 50
const ACKNOWLEDGE_MS = 200
const ACKNOWLEDGE_MESSAGES = 20
const BATCH = 50
const BEAT_S = 60
const RECONNECT_MS = [500, 30000]
const EPHEMERAL_MS = 60000
const FEATURES = [1, 2, 3, 6] // history, settings, commands, ephemeral messages
const [HERE, GOING, GONE] = [0, 1, 2]
const inbox = id => id.slice(0, 32)
const TOPIC = 'covey/1/in/'
const MEMBERS_ONLY = new Set([
  'BLOB', 'TELEMETRY', 'SUMMARY', 'REDIRECTED', 'FORWARD', 'GROUP_PULL', 'GROUP_VOTE', 'OPERATIONS', 'HISTORY_PULL', 'HISTORY_GRAPH', 'SETTING_REPORT',
  'ORDER_RESULT', 'EPHEMERAL', 'CONTENT_ACK', 'CONTENT_PULL', 'CONTENT_PART', 'COLLECTOR_KEY', 'MAILBOX', 'REVOKE',
])

const keyPairs = secrets => secrets.map(bytesOf).map(secret => ({ secret, public: primitives.xPublic(secret) }))

class Device {
  constructor(options) {
    this.options = options
    this.store = new Store(options.state)
    this.identity = this.loadIdentity()
    this.links = new Links(this.store, this.identity, () => this.now())
    this.holdings = new Map([...this.store.under('group/')].map(([id]) => [id, new Holding(id, this.store, this.identity)]))
    this.ownKeys = new OwnLinkKeys()
    this.givenKeys = new GivenLinkKeys(this.store, this.identity, id => this.shared(id).length > 0, () => this.now())
    this.presences = new Map()
    this.comparing = new Comparing(this)
    this.joining = new Joining(this, FEATURES)
    this.issuing = new Issuing(this, FEATURES)
    this.landing = new Landing(this)
    this.electing = new Electing(this)
    this.obedience = new Obedience(this, options)
    this.connection = null
    this.again = RECONNECT_MS[0]
  }

  now() {
    return Date.now()
  }

  say(event) {
    process.stdout.write(JSON.stringify(event) + '\n')
  }

  loadIdentity() {
    if (!this.store.get('identity')) {
      const [signing, noise] = [crypto.randomBytes(32), crypto.randomBytes(32)].map(hexOf)
      this.store.commit([['identity', { signing, noise: [noise] }], ['incarnation', hexOf(crypto.randomBytes(8))]])
    }
    const { signing, noise } = this.store.get('identity')
    const seed = bytesOf(signing)
    const key = primitives.edPublic(seed)
    return { signing: seed, key, id: hexOf(key), noise: keyPairs(noise), incarnation: bytesOf(this.store.get('incarnation')) }
  }

  /** After a rotation: the newest noise key is the first one. */
  readNoise() {
    this.identity.noise = keyPairs(this.store.get('identity').noise)
  }

  /** {url, password, certificates}: of its owner, or what it was given when it was let in; null where it has none */
  account() {
    const { password, certificates, relay } = this.options
    if (password) return { url: relay, password, certificates }
    const given = this.store.get('account')
    return given ? { url: relay ?? given.url, password: given.credential, certificates: given.certificates || certificates } : null
  }

  relay() {
    return this.account()?.url ?? this.options.relay ?? [...this.holdings.values()].map(holding => holding.about.relay).find(Boolean)
  }

  // The relay (section 3)

  connect() {
    const number = this.nextCounter()
    const will = this.will(number)
    const { password = null, certificates = this.options.certificates } = this.account() ?? {}
    const connection = new Connection(this.relay(), { user: inbox(this.identity.id), password, certificates, will })
    this.connection = Object.assign(connection, { number })
    connection.on('connect', () => connection.subscribe(TOPIC + inbox(this.identity.id)))
    connection.on('subscribed', () => this.connected())
    connection.on('delivery', delivery => this.deliver(connection, delivery))
    connection.on('close', why => {
      if (this.ending) return process.exit(0)
      this.say({ event: 'offline', why })
      setTimeout(() => this.connect(), this.again)
      this.again = Math.min(RECONNECT_MS[1], this.again * 2)
    })
  }

  connected() {
    this.again = RECONNECT_MS[0]
    this.say({ event: 'online' })
    this.links.reconnected()
    for (const name of this.heard()) this.links.acknowledge(name)
    this.beat(HERE)
    this.flush()
  }

  /** Links that were heard of shortly before, for whoever waits for the acknowledgement that a crash has cut off */
  heard() {
    return [...this.store.under('in/')].map(([name]) => name).slice(-64)
  }

  /** Publishes a message; `link` says what the link keys need to know of it. */
  publish(to, raw, link = {}) {
    const noise = this.noiseOf(to)
    if (!noise || !this.connection?.up) return false
    return this.connection.publish(TOPIC + inbox(to), this.ownKeys.seal(to, raw, noise, this.now(), link))
  }

  noiseOf(id) {
    for (const holding of this.holdings.values()) if (holding.isShared(id)) return holding.noiseOf(id)
    for (const holding of this.holdings.values()) if (holding.noiseOf(id)) return holding.noiseOf(id)
    return null
  }

  // Presence (section 22)

  nextCounter() {
    const counter = Math.max((this.store.get('presence') ?? 0) + 1, Math.floor(this.now() / 1000))
    this.store.commit([['presence', counter]])
    return counter
  }

  collectors() {
    return [...new Set([...this.holdings.values()].map(holding => holding.collector()).filter(id => id && id !== this.identity.id))]
  }

  will(counter) {
    const [to] = this.collectors()
    if (!to) return null
    const raw = this.links.write('PRESENCE', to, null, encode([counter, GONE, BEAT_S, []]))
    return { topic: TOPIC + inbox(to), payload: envelopes.seal(raw, this.noiseOf(to)), delay: Math.min(42, BEAT_S) }
  }

  beat(state) {
    const { number } = this.connection
    for (const to of this.collectors()) {
      const body = encode([this.nextCounter(), state, BEAT_S, state === HERE ? [number] : []])
      this.publish(to, this.links.write('PRESENCE', to, this.sharedWith(to), body))
    }
    this.beaten = this.now()
  }

  // Heads (section 24)

  shared(id) {
    return [...this.holdings.values()].filter(holding => holding.isShared(id))
  }

  sharedWith(id) {
    return heads.sharedHeads(this.shared(id).map(holding => [holding.groupId, holding.headDigest(), holding.historyDigest()]))
  }

  // Receiving (section 8)

  deliver(connection, delivery) {
    const release = () => connection.acknowledge(delivery)
    try {
      if (this.receive(delivery.payload, release)) return // it is released when it has landed
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.say({ event: 'refused', code: error.code, why: error.message })
    }
    release()
    this.flush()
  }

  /** True where the message is held until it has landed; `release` is called then. */
  receive(envelope, release) {
    const lasting = envelopes.sealingSecret(this.identity.signing)
    const secrets = [...this.identity.noise.map(each => each.secret), lasting]
    const opened = envelopes.open(envelope, secrets, tag => this.givenKeys.find(tag)?.key)
    const given = opened.tag && this.givenKeys.find(opened.tag)
    const linked = given && given.author
    const plain = given ? messages.restored(opened.message, { ...given, author: bytesOf(linked) }, this.identity.key) : opened.message
    const message = linked && messages.isNote(plain) ? messages.readNote(plain, bytesOf(linked), this.identity.key) : messages.readMessage(plain)
    const author = hexOf(message.author)
    if (linked && linked !== author) throw new Refused('decryption')
    if (opened.secret === lasting && message.type !== 'HEADS') throw new Refused('malformed')
    if (!message.recipient.equals(this.identity.key)) throw new Refused('not_for_us')
    this.mayWrite(message, author)
    this.ownKeys.heard.add(author)
    const tx = this.links.transaction()
    if (!message.linkSeq) {
      if (message.unsupported) throw new Refused('unsupported')
      this.takeUnsequenced(tx, message, author)
      return tx.commit()
    }
    const awaited = this.links.due.has(this.links.linkName(message))
    let fresh = false
    try {
      fresh = this.links.isNew(tx, message)
    } finally {
      if (!fresh && opened.secret && !awaited) this.ownKeys.end(author) // it may not have been able to open the acknowledgement
    }
    if (!fresh) return undefined
    const { record, code } = this.toLand(message, author)
    if (record) this.landing.hold(message, record, release)
    if (record) return true
    if (!code && ['TELEMETRY', 'SUMMARY', 'REDIRECTED'].includes(message.type)) return undefined // no room: this device lands none
    const outcome = code ?? (message.unsupported ? 'unsupported' : this.takeSequenced(tx, message, author, opened.secret))
    if (outcome) tx.set(`aside/${author}/${message.linkSeq}`, { code: outcome, raw: hexOf(message.raw) })
    this.links.take(tx, message, { unsupported: outcome === 'unsupported' })
    tx.commit()
    if (outcome) this.say({ event: 'aside', code: outcome, type: message.number })
    this.after()
    return undefined
  }

  /** What is to land of a message, or the code with which it is set aside; neither where it is for others to take */
  toLand(message, author) {
    const { type, groupId, unsupported } = message
    const holding = groupId.equals(messages.ZEROS) ? null : this.holdings.get(hexOf(groupId))
    if (unsupported || !this.landing.takes(type, holding, author)) return {}
    try {
      return { record: this.landing.read(message) }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { code: error.code }
    }
  }

  mayWrite(message, author) {
    const { type, groupId, body } = message
    const holding = this.holdings.get(hexOf(groupId))
    const awaited = [...this.holdings.values()].some(each => !each.graph && each.about.inviter === author)
    const shares = this.shared(author).length > 0
    if (type === 'ACK' || type === 'GROUP_MANIFEST') return
    if (type === 'JOIN') {
      if (!holding?.isMember) throw new Refused('invite')
      this.issuing.openInvite(holding, author, messages.readJoin(body))
      return
    }
    const ofLink = ['LOSS', 'LINK', 'RESUME', 'PRESENCE', 'HEADS', 'GROUP_INVITE'].includes(type) || (type === null && groupId.equals(messages.ZEROS))
    if (ofLink) {
      const former = [...this.holdings.values()].some(each => each.graph && !each.isMember && each.noiseOf(author))
      const mayKnow = type === 'HEADS' && [...this.holdings.values()].some(each => each.graph && each.noiseOf(author))
      if (!shares && !(awaited && type !== 'HEADS') && !former && !mayKnow) throw new Refused('not_a_member')
      return
    }
    if (!holding?.graph) throw new Refused('unknown_group')
    if ((type === null || MEMBERS_ONLY.has(type)) && !holding.isShared(author)) throw new Refused('not_a_member')
  }

  takeUnsequenced(tx, message, author) {
    const { type, groupId, body } = message
    switch (type) {
      case 'ACK':
        this.takeAcknowledgement(tx, author, messages.readAcknowledgement(body))
        return this.comparing.compare(author, groupId)
      case 'RESUME':
        return this.links.close(tx, this.links.linkName(message), messages.readResumption(body), { strictly: true })
      case 'PRESENCE': {
        const presence = messages.readPresence(body)
        if (!this.presences.has(author)) this.presences.set(author, new messages.Presences())
        this.presences.get(author).take(presence)
        return this.comparing.compare(author, groupId)
      }
      case 'HEADS':
        this.comparing.takeHeads(tx, author, messages.readHeads(body))
        return this.comparing.compare(author, groupId)
      case 'EPHEMERAL': {
        const [saidAt, content] = messages.readEphemeral(body)
        const apart = Number(saidAt) / 1000 - this.now()
        if (Math.abs(apart) > EPHEMERAL_MS || saidAt <= (this.said?.get(author) ?? -1)) throw new Refused('rollback')
        this.said = (this.said ?? new Map()).set(author, saidAt)
        return this.say({ event: 'ephemeral', from: author, content: hexOf(content) })
      }
      default:
        throw new Refused('unsupported')
    }
  }

  takeAcknowledgement(tx, author, acknowledgement) {
    const outcome = this.links.acknowledged(tx, author, acknowledgement)
    if (!outcome) {
      if (!this.shared(author).length || !this.comparing.mayAsk('LIFE', author)) return
      this.links.beginAgain(tx, crypto.randomBytes(8))
      this.ownKeys = new OwnLinkKeys()
      return this.say({ event: 'another life' })
    }
    for (const entry of outcome.freed) {
      this.ownKeys.forget(entry.place)
      if (entry.type === 'LINK' && this.ownKeys.acknowledged(author, messages.readMessage(bytesOf(entry.raw)).body)) {
        this.say({ event: 'link', to: author })
      }
      if (entry.unsupported) this.say({ event: 'unsupported there', by: author, type: entry.type })
    }
    if (outcome.missing.length) {
      const zeros = this.links.write('RESUME', author, null, encode(outcome.missing))
      this.publish(author, zeros)
    }
    if (outcome.freed.length) this.say({ event: 'acknowledged', messages: outcome.freed.length })
  }

  /** Null where its type's own reader takes it, else the code with which it is kept aside */
  takeSequenced(tx, message, author, secret) {
    const { type, body, groupId } = message
    const holding = this.holdings.get(hexOf(groupId))
    try {
      switch (type) {
        case 'GROUP_MANIFEST':
          this.takeManifests(tx, holding, author, body)
          return null
        case 'JOIN':
          this.issuing.letIn(tx, holding, author, messages.readJoin(body))
          return null
        case 'GROUP_PULL':
          this.links.queue(tx, { to: author, groupId, type: 'GROUP_MANIFEST', body: holding.manifestsFrom(BigInt(messages.readPull(body))) })
          return null
        case 'OPERATIONS': {
          const [raws, more] = readOperations(body)
          const { taken, lacking } = holding.takeOperations(tx, raws)
          if (taken) this.comparing.helped('HISTORY')
          if (taken) this.say({ event: 'operations', taken })
          if (lacking || more) this.comparing.pullHistory(tx, holding, author)
          if (holding.lacksManifests()) this.comparing.pull(tx, holding, author, 1n) // of before this device was there
          return null
        }
        case 'HISTORY_PULL': {
          const answer = holding.answerPull(readHistoryPull(body))
          if (answer) this.links.queue(tx, { to: author, groupId, type: 'OPERATIONS', body: answer })
          return null
        }
        case 'REVOKE':
          return this.takeRevoke(tx, holding, readRevoke(body))
        case 'LINK':
          messages.readLink(body)
          if (secret) this.givenKeys.take(tx, author, body, primitives.xPublic(secret)) // one that came by a link is not kept
          return null
        case 'LOSS': {
          const { places, earlier } = messages.readLoss(body)
          const life = hexOf(earlier ?? message.incarnation)
          this.links.close(tx, `${author}/${life}`, places, { strictly: false })
          return null
        }
        case 'BLOB':
          tx.set('inbox/' + tx.next('inbox'), { from: author, body: hexOf(body) })
          this.say({ event: 'blob', from: author, body: hexOf(body) })
          return null
        case 'FORWARD':
          messages.readForward(body)
          return 'unsupported'
        default:
          return 'unsupported'
      }
    } catch (error) {
      if (!(error instanceof Refused) || error.code === 'not_a_member') throw error
      return error.code
    }
  }

  takeManifests(tx, holding, author, body) {
    const [raws, secrets] = messages.readGroupManifests(body)
    if (!holding) throw new Refused('genesis')
    const awaited = !holding.graph && holding.about.inviter === author
    if (awaited && !raws.length) return this.say({ event: 'not let in' })
    if (holding.graph && !holding.members().has(author) && !this.isOfLast(raws, author)) throw new Refused('not_a_member')
    if (!holding.graph && !awaited) throw new Refused('not_a_member')
    const was = holding.isMember
    const { taken, lacking } = holding.takeManifests(tx, raws, secrets)
    if (taken) this.comparing.helped('PULL')
    const waited = taken ? holding.takeOperations(tx, []).taken : 0
    if (waited) this.say({ event: 'operations', taken: waited })
    if (lacking) this.comparing.pull(tx, holding, author, [...holding.waiting.values()].reduce((least, each) => (each.version < least ? each.version : least), 1n << 62n) - 1n)
    if (!was && holding.isMember) {
      this.say({ event: 'member', group: holding.id, device: this.identity.id })
      setImmediate(() => this.connection?.up && this.beat(HERE))
    }
    if (taken) this.say({ event: 'members', group: holding.id, members: [...holding.members().keys()], conflict: !holding.graph.current() })
    if (was && !holding.isMember) this.say({ event: 'removed', group: holding.id })
  }

  isOfLast(raws, author) {
    try {
      const last = readManifest(raws.at(-1))
      return last.issuer === author || last.members.some(member => member.id === author)
    } catch {
      return false
    }
  }

  takeRevoke(tx, holding, revoke) {
    if (!revoke.groupId.equals(holding.groupId)) return 'not_for_us'
    const issuer = holding.members().get(revoke.issuer)
    if (!issuer || issuer.capabilities.includes('board')) return 'unknown_issuer'
    if (issuer.since > revoke.version) return 'rollback'
    for (const prefix of ['group/', 'settings/']) tx.set(prefix + holding.id, null)
    for (const prefix of ['manifest/', 'secret/', 'operation/']) {
      for (const [name] of this.store.under(prefix + holding.id)) tx.set(prefix + holding.id + name, null)
    }
    for (const [place, entry] of this.links.waiting()) if (entry.group === holding.id) tx.set('out/' + place, null)
    this.holdings.delete(holding.id)
    this.say({ event: 'destroyed', group: holding.id })
    return null
  }

  // What follows from what has come

  after() {
    for (const holding of this.holdings.values()) {
      if (!holding.graph) continue
      if (holding.isMember) this.obedience.look(holding)
      this.issuing.look(holding)
      const tx = this.links.transaction()
      this.withdraw(tx, holding)
      this.givenKeys.look(tx)
      tx.commit()
    }
  }

  /** Telemetry for a device that lands none any more goes to the present collector; for who is out, everything else is withdrawn. */
  withdraw(tx, holding) {
    const collector = holding.collector()
    for (const [place, entry] of [...this.links.waiting()]) {
      if (entry.group !== holding.id || entry.to === collector) continue
      const telemetry = entry.type === 'TELEMETRY' || entry.type === 'REDIRECTED'
      const listed = holding.members().get(entry.to)
      if (telemetry && holding.isMember && !listed?.capabilities.includes('collector')) {
        if (!collector) continue
        const body = entry.type === 'TELEMETRY' ? bytesOf(entry.raw) : messages.readMessage(bytesOf(entry.raw)).body
        tx.set('out/' + place, null)
        this.links.queue(tx, { to: collector, groupId: holding.groupId, type: 'REDIRECTED', body, number: entry.number })
      } else if (!listed && !['GROUP_MANIFEST', 'REVOKE', 'JOIN', 'GROUP_INVITE', 'INVITE_REQUEST'].includes(entry.type)) {
        tx.set('out/' + place, null)
      }
    }
  }

  // Telemetry (section 11)

  measure() {
    const { count, every } = this.options
    const made = this.store.get('made') ?? 0
    if (made >= count || this.now() < (this.measured ?? 0) + every) return
    this.measured = this.now()
    const n = made + 1
    this.store.commit([['made', n], ['reading/' + String(n).padStart(9, '0'), ['count', '1', this.now() * 1000, n]]])
  }

  pack() {
    const holding = [...this.holdings.values()].find(each => each.collector() && each.collector() !== this.identity.id)
    if (!holding) return
    const waiting = [...this.store.under('reading/')]
    for (let at = 0; at < waiting.length; at += BATCH) {
      const part = waiting.slice(at, at + BATCH)
      const tx = this.links.transaction()
      const clock = { bootId: this.bootId, clock: 2, monotonic: Math.floor(process.uptime() * 1e6), wall: this.now() * 1000 }
      const number = tx.next('number')
      const body = writeTelemetry(number, clock, part.map(([, reading]) => reading))
      this.links.queue(tx, { to: holding.collector(), groupId: holding.groupId, type: 'TELEMETRY', body, number })
      for (const [name] of part) tx.set('reading/' + name, null)
      tx.commit()
    }
  }

  get bootId() {
    this.boot ??= crypto.randomBytes(8)
    return this.boot
  }

  // The clock's work

  flush() {
    if (!this.connection?.up) return
    for (const [name, due] of [...this.links.due]) {
      if (this.now() < due.since + ACKNOWLEDGE_MS && due.messages < ACKNOWLEDGE_MESSAGES) continue
      const author = name.split('/')[0]
      const body = this.links.acknowledgement(name)
      this.links.due.delete(name)
      const shared = this.sharedWith(author)
      const note = messages.writeNote('ACK', shared, body)
      this.publish(author, this.links.write('ACK', author, shared, body), { mayLink: true, note })
    }
    for (const [place, { to, type, raw }] of this.links.toSend(this.now())) {
      this.publish(to, bytesOf(raw), { place, mayLink: type !== 'LINK' })
    }
    this.beginLinks()
  }

  lookAt(holding) {
    this.issuing.look(holding)
    if (holding.isMember) this.electing.look(holding)
  }

  /** Gives link keys to those for whom enough was sealed (section 4). */
  beginLinks() {
    for (const to of this.ownKeys.heard) {
      if (!this.shared(to).length) continue
      const body = this.ownKeys.begin(to, this.noiseOf(to), this.now())
      if (!body) continue
      const tx = this.links.transaction()
      this.links.queue(tx, { to, groupId: null, type: 'LINK', body })
      tx.commit()
    }
  }

  tick() {
    this.landing.land()
    this.measure()
    this.pack()
    this.issuing.wipe()
    for (const holding of this.holdings.values()) if (holding.graph) this.lookAt(holding)
    if (this.connection?.up && this.now() > (this.beaten ?? 0) + BEAT_S * 1000) this.beat(HERE)
    this.flush()
    const { count, exit } = this.options
    const idle = (this.store.get('made') ?? 0) >= count && this.store.under('out/').next().done && this.store.under('reading/').next().done
    if (exit && idle && [...this.holdings.values()].some(holding => holding.isMember)) this.end()
  }

  run() {
    this.say({ event: 'device', id: this.identity.id })
    for (const uri of this.options.invites) this.joining.byInvite(uri)
    if (this.options.code) this.joining.byCode(this.options.code)
    for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => this.end())
    if (this.options.create && ![...this.holdings.values()].length) this.issuing.create()
    if (this.options.commands) readline.createInterface({ input: process.stdin }).on('line', line => this.obeyLine(line))
    if (!this.joining.meeting) this.begin()
  }

  /** A line of its standard input, with --commands: what a person has it do */
  obeyLine(line) {
    const [verb, ...words] = line.trim().split(' ')
    const holding = [...this.holdings.values()].find(each => each.isMember)
    const verbs = {
      invite: () => this.say({ event: 'invite', uri: this.issuing.invite(holding, words) }),
      remove: () => this.issuing.remove(holding, [...holding.members().keys()].find(id => id.startsWith(words[0])) ?? words[0]),
      leave: () => this.issuing.remove(holding, this.identity.id),
      rotate: () => this.issuing.rotate(),
      checkpoint: () => this.electing.propose(holding),
    }
    try {
      if (!verbs[verb] || !holding) throw new Refused('local', `not now, or no command: ${line}`)
      verbs[verb]()
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.say({ event: 'error', code: error.code, why: error.message })
    }
  }

  begin() {
    if (!this.relay()) throw new Refused('local', 'no relay: give --relay, or an invite that names one')
    this.landing.resume()
    this.connect()
    this.after()
    this.timer = setInterval(() => this.tick(), TICK_MS)
  }

  end(code = 0) {
    if (this.ending) return
    this.ending = true
    clearInterval(this.timer)
    if (!this.connection?.up) process.exit(code)
    this.beat(GOING)
    this.connection.disconnect()
    setTimeout(() => process.exit(0), 1000)
  }
}

module.exports = { Device }
