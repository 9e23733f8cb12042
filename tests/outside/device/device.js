#!/usr/bin/env node
// A device: `node device.js --state DIR --invite URI` joins, delivers telemetry, keeps what its group says, and does what it is ordered.
'use strict'
const fs = require('node:fs')
const { parseArgs } = require('node:util')
const { Device } = require('./agent.js')
const { Refused } = require('./cbor.js')
const { bytesOf } = require('./holdings.js')
const { hexOf } = require('./manifests.js')
const primitives = require('./primitives.js')

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'

/** A signing key as people write it (section 14), or in hex */
function keyFromText(text) {
  if (/^[0-9a-f]{64}$/.test(text)) return text
  let bits = 0n
  for (const letter of text.replace(/^covey-sign-/, '')) bits = bits * 32n + BigInt(BASE32.indexOf(letter))
  const bytes = text.startsWith('covey-sign-') && bits >= 0n ? bytesOf((bits >> 2n).toString(16).padStart(72, '0')) : Buffer.alloc(0)
  const key = bytes.subarray(0, 32)
  const check = primitives.blake2b(Buffer.concat([Buffer.from('sign'), key]), 'covey/1 key', 4)
  if (bytes.length !== 36 || !check.equals(bytes.subarray(32))) throw new Refused('local', `no signing key: ${text}`)
  return hexOf(key)
}

const USAGE = `node device.js --state DIR [--invite URI]… [--code CODE] [options]
  --label TEXT            how it is called in its groups
  --relay URL             mqtt:// or mqtts://; without it, the relay that its invite names
  --code CODE             joins by a word code; it prints the words that both people compare
  --password TEXT         of its account at the relay (also COVEY_PASSWORD)
  --certificates FILE     whom to trust at the relay
  --create                makes a group of its own, with --capability NAME (several) in it
  --commands              reads from its standard input, a line each: invite [CAPABILITY]…, remove KEY, leave, rotate, checkpoint
  --count N               readings to make in all, over all runs; every --every MILLISECONDS
  --exit                  ends when all of them were acknowledged
  --operator KEY          whose orders it obeys (several, with --threshold N); --obey-invite: those whom the invite names
  --key                   prints its signing key, in hex, and ends
  --action NAME=PROGRAM   what they may have done (several); it is given the arguments' values
`

function main() {
  const text = { type: 'string' }
  const many = { type: 'string', multiple: true, default: [] }
  const { values } = parseArgs({
    options: {
      state: text, invite: many, code: text, create: { type: 'boolean' }, commands: { type: 'boolean' }, capability: many, label: { ...text, default: 'second device' }, relay: text, password: text, certificates: text,
      count: { ...text, default: '0' }, every: { ...text, default: '100' }, exit: { type: 'boolean' }, operator: many,
      threshold: { ...text, default: '1' }, 'obey-invite': { type: 'boolean' }, action: many, key: { type: 'boolean' },
    },
  })
  if (!values.state) throw new Refused('local', 'no --state')
  const actions = new Map(values.action.map(each => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1).split(' ')]))
  const device = new Device({
    ...values, invites: values.invite, capabilities: values.capability, count: Number(values.count), every: Number(values.every), operators: values.operator.map(keyFromText), actions,
    threshold: Number(values.threshold), obeyInvite: values['obey-invite'], password: values.password ?? process.env.COVEY_PASSWORD ?? null,
    certificates: values.certificates && fs.readFileSync(values.certificates),
  })
  if (values.key) return process.stdout.write(device.identity.id + '\n')
  return device.run()
}

try {
  main()
} catch (error) {
  if (!(error instanceof Refused) && !error.code?.startsWith?.('ERR_PARSE_ARGS')) throw error
  process.stderr.write(`error: ${error.message}\n${USAGE}`)
  process.exitCode = 2
}
