// One reader for each structure that growth.json names, and for others that the differential test changes.
'use strict'
const { Refused } = require('./cbor.js')
const { readBody, readHistoryPull, readOperation, readOperations } = require('./history.js')
const { readManifest, readRevoke, readVote } = require('./manifests.js')
const { readGroupInvite } = require('./invites.js')
const messages = require('./messages.js')
const { readReport, readResult } = require('./orders.js')
const { readPlan } = require('./personal.js')
const { readRendezvous } = require('./rendezvous.js')
const { readSummary, readTelemetry } = require('./telemetry.js')

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
  'own group': bytes => readBody(10, bytes),
  preference: bytes => readBody(11, bytes),
  operator: bytes => readBody(4, bytes),
  command: bytes => readBody(6, bytes),
  release: bytes => readBody(13, bytes),
  plan: readPlan,
  ORDER_RESULT: readResult,
  SETTING_REPORT: readReport,
  GROUP_INVITE: readGroupInvite,
  TELEMETRY: readTelemetry,
  SUMMARY: readSummary,
  rendezvous: readRendezvous,
}

const read = (structure, bytes) => READERS[structure](bytes)

module.exports = { READERS, read }
