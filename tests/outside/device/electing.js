// Section 28: checkpoints that this device proposes, and those of others that it signs as an elector.
'use strict'
const { encode } = require('./cbor.js')
const { partsOf, stateOf, toSign } = require('./checkpoints.js')
const { KINDS, isBoard } = require('./history.js')
const { bytesOf } = require('./holdings.js')

const LOOK_MS = 5000

class Electing {
  constructor(device) {
    Object.assign(this, { device, looked: new Map() })
  }

  pins(holding) {
    const { obedience } = this.device
    return { operators: obedience.pinned(holding), threshold: obedience.threshold }
  }

  /** Writes operations in one commit, each after all that came before, and sends them to every other member. */
  write(holding, bodies) {
    const { links } = this.device
    const tx = links.transaction()
    const written = bodies.map(([kind, body]) => holding.writeOperation(tx, kind, body, Date.now() * 1000))
    for (const to of holding.others()) links.queue(tx, { to, groupId: holding.groupId, type: 'OPERATIONS', body: holding.operationsBody(written) })
    tx.commit()
    return written
  }

  /** Rule 5: a merge over all, and the state that it comes to, in parts */
  propose(holding) {
    const [merge] = this.write(holding, [[KINDS.MERGE, encode([])]])
    const covers = holding.history.held.get(merge.id)
    const members = new Set(holding.graph.get(merge.manifest).members.filter(member => !isBoard(member)).map(member => member.id))
    const { bytes } = stateOf(holding.history, covers, this.pins(holding), members)
    const written = this.write(holding, partsOf(bytes).map(body => [KINDS.CHECKPOINT, body]))
    this.device.say({ event: 'checkpoint', id: written.at(-1).id })
  }

  /** Rule 4: signs what comes to the same here; not more often than every 5 s */
  look(holding) {
    const { history } = holding
    if (!history.order.some(each => each.kind === KINDS.CHECKPOINT)) return
    if (Date.now() < (this.looked.get(holding.id) ?? 0) + LOOK_MS) return
    this.looked.set(holding.id, Date.now())
    const { id } = this.device.identity
    for (const { last } of toSign(history, this.pins(holding), id, history.voids())) {
      this.write(holding, [[KINDS.APPROVAL, encode([bytesOf(last.id)])]])
      this.device.say({ event: 'signed', checkpoint: last.id })
    }
  }
}

module.exports = { Electing }
