// Section 24: digests by which two devices compare how their groups stand.
'use strict'
const { blake2b } = require('./primitives.js')

const DIGEST = 16
const HALF = 10
const ascending = hashes => [...hashes].sort(Buffer.compare)

/** The head digest of a group, or its history digest */
const digestOf = (hashes, person) => blake2b(Buffer.concat(ascending(hashes)), person).subarray(0, DIGEST)

function half(pairs) {
  if (!pairs.length) return Buffer.alloc(HALF)
  const said = [...pairs].sort((one, other) => Buffer.compare(one[0], other[0])).flat()
  return blake2b(Buffer.concat(said), 'covey/1 shared').subarray(0, HALF)
}

/** `groups`: [group id, head digest, history digest or null] of every shared one */
function sharedHeads(groups) {
  const histories = groups.filter(group => group[2])
  const halves = [half(groups.map(([id, manifests]) => [id, manifests])), half(histories.map(([id, , history]) => [id, history]))]
  return Buffer.concat([...halves, Buffer.alloc(32 - 2 * HALF)])
}

/** A half of zeros says nothing, and differs from nothing. */
function agree(one, other) {
  return [0, HALF].every(at => {
    const [mine, theirs] = [one, other].map(heads => heads.subarray(at, at + HALF))
    return [mine, theirs].some(each => each.every(byte => byte === 0)) || mine.equals(theirs)
  })
}

module.exports = { agree, digestOf, sharedHeads }
