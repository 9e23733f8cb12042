// One reader for each structure that growth.json names.
'use strict'
const { Refused } = require('./cbor.js')
const { readBody, readHistoryPull, readOperation, readOperations } = require('./history.js')
const { readManifest, readRevoke, readVote } = require('./manifests.js')
const messages = require('./messages.js')

const READERS = {
  message: bytes => {
    if (messages.readMessage(bytes).unsupported) throw new Refused('unsupported')
  },
  'group manifest': readManifest,
  vote: readVote,
  revoke: readRevoke,
  ACK: messages.readAcknowledgement,
  LINK: messages.readLink,
  LOSS: messages.readLoss,
  RESUME: messages.readResumption,
  JOIN: messages.readJoin,
  GROUP_PULL: messages.readPull,
  GROUP_MANIFEST: messages.readGroupManifests,
  PRESENCE: messages.readPresence,
  HEADS: messages.readHeads,
  EPHEMERAL: messages.readEphemeral,
  FORWARD: messages.readForward,
  operation: readOperation,
  OPERATIONS: readOperations,
  HISTORY_PULL: readHistoryPull,
  note: bytes => readBody(1, bytes),
  setting: bytes => readBody(5, bytes),
}

const read = (structure, bytes) => READERS[structure](bytes)

module.exports = { READERS, read }
