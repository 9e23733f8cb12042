// Section 9: group manifests by themselves, M1 to M8; votes and revokes (section 35).
'use strict'
const { decode, encode, limit, malformed } = require('./cbor.js')
const { announcement, noiseKey } = require('./messages.js')
const { blake2b, sign, verify } = require('./primitives.js')
const {
  ascending, hash, integer, key, list, octets, orNull, read, signature, structure, text, tuple, uint63,
} = require('./shapes.js')

const MAXIMUM_MANIFEST_BYTES = 262144
const MAXIMUM_MEMBERS = 1000
const MAXIMUM_ANNOUNCEMENT_BYTES = 128
const FOUNDER_ALLOWANCE = 536870912
const MODES = { ONE_TO_ONE: 0, ADMIN_INVITES: 1, INVITES_ONLY: 2, PUBLIC: 3, PERSONAL: 4 }
const hexOf = bytes => bytes.toString('hex')
const hashOf = manifest => blake2b(manifest, 'covey/1 gm hash')

const byCodePoint = (one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))

function readMember(value) {
  const capabilities = list(text(32), 8)
  const shapes = [key, key, text(8), text(64), integer(0, 1), capabilities, uint63, integer(0, FOUNDER_ALLOWANCE)]
  const [fields, extensions] = structure(value, shapes, { bound: MAXIMUM_ANNOUNCEMENT_BYTES })
  const [signing, noise, name, label, role, able, since, allowance] = fields
  const { rules } = announcement(extensions)
  ascending(able, byCodePoint)
  const id = hexOf(signing)
  return { signing, noise, name, label, role, capabilities: able, since: BigInt(since), allowance: Number(allowance), extensions, rules, id }
}

/** A member's record as it stands in a document */
function memberFields(member) {
  const { signing, noise, name, label, role, capabilities, since, allowance, extensions } = member
  return [signing, noise, name, label, role, capabilities, since, allowance, ...(extensions.size ? [extensions] : [])]
}

function readBan(value) {
  const [target, since] = tuple(key, uint63)(value)
  return { target, since: BigInt(since), id: hexOf(target) }
}

function readManifest(bytes) {
  const outer = read(bytes, MAXIMUM_MANIFEST_BYTES)
  const [mark, document] = tuple(signature, octets(Infinity))(outer)
  const shapes = [
    integer(1, 1), key, uint63, list(hash, 16), integer(0, 4), orNull(key), list(readMember, MAXIMUM_MEMBERS),
    list(readBan, MAXIMUM_MEMBERS), uint63, hash, list(octets(256)), key,
  ]
  const value = decode(document, MAXIMUM_MANIFEST_BYTES + 1024)
  const [fields, extensions] = structure(value, shapes, { known: [4] })
  const [, groupId, version, prev, mode, invited, members, bans, epoch, epochId, votes, issuer] = fields
  const rules = extensions.has(4) ? integer(2, 255)(extensions.get(4)) : 1
  const manifest = {
    groupId, version: BigInt(version), prev: prev.map(hexOf), mode, invited, members, bans, epoch: BigInt(epoch), epochId, votes,
    issuer: hexOf(issuer), rules, raw: bytes, hash: hexOf(hashOf(bytes)),
  }
  checkAlone(manifest, prev)
  verify(issuer, 'covey/1 group manifest', document, mark) // M1, the dearest, comes last
  return manifest
}

function checkAlone(manifest, prev) {
  const { version, members, bans, mode, invited, votes, issuer, epoch, rules } = manifest
  if (version < 1n || (version === 1n) !== (prev.length === 0)) throw malformed('version') // M2
  ascending(prev, Buffer.compare)
  if (!members.length) throw limit('nobody') // M3
  ascending(members.map(member => member.signing), Buffer.compare)
  ascending(bans.map(ban => ban.target), Buffer.compare)
  members.forEach(member => noiseKey(member.noise))
  const listed = new Set(members.map(member => member.id))
  if (new Set(members.map(member => hexOf(member.noise))).size !== members.length) throw malformed('a noise key twice')
  if (bans.some(ban => listed.has(ban.id))) throw malformed('a banned member')
  if (members.some(member => member.name !== member.id.slice(0, 8))) throw malformed('name') // M4
  ascending(votes, Buffer.compare)
  if (version === 1n) { // M5
    const [founder] = members
    const admin = mode === MODES.INVITES_ONLY || mode === MODES.PERSONAL ? 0 : 1
    if (members.length > 1 || founder.id !== issuer || founder.role !== admin) throw malformed('genesis')
    if (bans.length || votes.length || epoch !== 1n) throw malformed('genesis')
    if (founder.allowance !== FOUNDER_ALLOWANCE) throw malformed('allowance') // M9
  }
  if ([...members, ...bans].some(({ since }) => since < 1n || since > version)) throw malformed('since') // M6
  if ((invited !== null) !== (mode === MODES.ONE_TO_ONE)) throw malformed('invited') // M7
  if (invited && version === 1n && hexOf(invited) === issuer) throw malformed('invited')
  if (members.some(member => member.rules < rules)) throw malformed('judging rules') // M8
}

function writeManifest(seed, manifest) {
  const { groupId, version, prev, mode, invited, members, bans, epoch, epochId, votes, issuer } = manifest
  const document = encode([
    1, groupId, version, prev.map(each => Buffer.from(each, 'hex')), mode, invited, members.map(memberFields),
    bans.map(({ target, since }) => [target, since]), epoch, epochId, votes, Buffer.from(issuer, 'hex'),
  ])
  return encode([sign(seed, 'covey/1 group manifest', document), document])
}

function readVote(bytes) {
  const [mark, signed] = tuple(signature, octets(Infinity))(read(bytes, 256))
  const shapes = [integer(1, 1), key, integer(0, 2), key, uint63, key]
  const [[, groupId, action, target, since, voter]] = structure(decode(signed, 256 + 1024), shapes)
  verify(voter, 'covey/1 vote', signed, mark)
  return { groupId, action, target: hexOf(target), since: BigInt(since), voter: hexOf(voter) }
}

function readRevoke(bytes) {
  const [mark, signed] = tuple(signature, octets(Infinity))(read(bytes, 65536))
  const shapes = [integer(1, 1), key, uint63, uint63, list(key, MAXIMUM_MEMBERS), key]
  const [[, groupId, epoch, version, targets, issuer]] = structure(decode(signed, 65536 + 1024), shapes)
  verify(issuer, 'covey/1 revoke', signed, mark)
  return { groupId, epoch: BigInt(epoch), version: BigInt(version), targets: targets.map(hexOf), issuer: hexOf(issuer) }
}

module.exports = { FOUNDER_ALLOWANCE, MAXIMUM_MEMBERS, MODES, hexOf, memberFields, readManifest, readRevoke, readVote, writeManifest }
