// Sections 11 and 12: batches of readings in columns.
'use strict'
const zlib = require('node:zlib')
const { decode, encode, limit, malformed } = require('./cbor.js')
const { UINT63, exactly, integer, list, octets, ranges, structure, text, tuple, uint63 } = require('./shapes.js')

const [DECIMAL, BOOLEAN, FLOAT, TEXT, DATA] = [0, 1, 2, 3, 4]
const ASSERTED = 2
const ALARM = 1 // the key of an extension map
const MAXIMUM_BATCH_BYTES = 524288
const MAXIMUM_READINGS = 16000
const MAXIMUM_SERIES = 1024
const MAXIMUM_TEXT = 4096
const MAXIMUM_WINDOWS = 4096
const MAXIMUM_WINDOW_US = 31 * 86400e6
const MAXIMUM_RANGES = 64
const INT64 = integer(-(2n ** 63n), 2n ** 63n - 1n)
const MAXIMUM_SUM = 2n ** 62n

function transposed(bytes, width, count) {
  const out = Buffer.alloc(bytes.length)
  for (let n = 0; n < count; n++) for (let byte = 0; byte < width; byte++) out[n * width + byte] = bytes[byte * count + n]
  return out
}

function readColumn(value, count) {
  const [first, width, planes] = tuple(INT64, integer(1, 8), octets(Infinity))(value)
  if (![1, 2, 4, 8].includes(width) || planes.length !== width * count) throw malformed('column')
  const raw = transposed(planes, width, count)
  let sum = BigInt(first)
  const out = []
  for (let n = 0; n < count; n++) {
    sum += width === 8 ? raw.readBigInt64LE(8 * n) : BigInt(raw.readIntLE(width * n, width))
    if (sum >= MAXIMUM_SUM || sum <= -MAXIMUM_SUM) throw malformed('running sum')
    out.push(sum)
  }
  return out
}

/** As far as a stream can be inflated before it turns out to be none */
function inflatedUntilDamage(packed) {
  const lengthOf = end => {
    try {
      return zlib.inflateRawSync(packed.subarray(0, end), { finishFlush: zlib.constants.Z_SYNC_FLUSH }).length
    } catch {
      return null
    }
  }
  let [good, bad] = [0, packed.length]
  while (bad - good > 1) {
    const middle = (good + bad) >> 1
    if (lengthOf(middle) === null) bad = middle
    else good = middle
  }
  return good ? lengthOf(good) : 0
}

/** At most `inflated` + 1 bytes are looked at: what follows them may be anything, and is `limit`. */
function inflate(packed, inflated) {
  let result
  try {
    // Output of one chunk that is full comes before damage that follows it
    result = zlib.inflateRawSync(packed, { maxOutputLength: Math.max(1, inflated), chunkSize: Math.max(64, inflated + 1), info: true })
  } catch (error) {
    if (error.code === 'ERR_BUFFER_TOO_LARGE' || inflatedUntilDamage(packed) > inflated) throw limit('inflated')
    throw malformed('deflate')
  }
  if (result.buffer.length > inflated) throw limit('inflated')
  if (result.engine.bytesWritten !== packed.length) throw malformed('bytes after the stream')
  return result.buffer
}

/** Integers of 7 bits a byte, the lowest first; odd numbers are the negative ones. */
class Varints {
  constructor(bytes) {
    this.bytes = bytes
    this.at = 0
  }

  get ended() {
    return this.at === this.bytes.length
  }

  next() {
    let number = 0n
    for (let place = 0n; place < 9n; place++) {
      if (this.ended) break
      const octet = this.bytes[this.at++]
      number |= BigInt(octet & 127) << (7n * place)
      if (octet > 127) continue
      if (place && !octet) break
      return number & 1n ? -(number >> 1n) - 1n : number >> 1n
    }
    throw malformed('varint')
  }
}

function readVarints(bytes, count) {
  const all = new Varints(bytes)
  const found = Array.from({ length: count }, () => all.next())
  if (!all.ended) throw malformed('varints')
  return found
}

function runningSums(steps, first) {
  let sum = first
  return steps.map(step => {
    sum += step
    if (sum >= MAXIMUM_SUM || sum <= -MAXIMUM_SUM) throw malformed('running sum')
    return sum
  })
}

/** The series of a batch; `own` is how many times of its own a series has: none if they are its neighbour's. */
function readShape(names, shape) {
  const named = list(text(128), 2 * MAXIMUM_SERIES)(decode(names, MAXIMUM_BATCH_BYTES))
  if (named.length % 2) throw malformed('a name without a unit')
  const rest = new Varints(shape)
  const series = []
  for (let n = 0; n < named.length; n += 2) {
    if (rest.ended) throw malformed('more names than series')
    const head = shape[rest.at++]
    const [kind, scale, asBefore] = [Math.floor(head / 20), (head % 20) >> 1, head & 1]
    if (asBefore && !n) throw malformed('the first series')
    const count = asBefore ? series.at(-1).count : Number(rest.next())
    const [name, unit] = [named[n], text(32)(named[n + 1])]
    if (!name || count < 1 || kind > DATA || (scale && kind !== DECIMAL)) throw malformed('series')
    series.push({ name, unit, kind, scale, count, own: asBefore ? 0 : count })
  }
  if (!rest.ended) throw malformed('more series than names')
  return series
}

/** {number, batch, readings}: readings are [name, unit, time by the device's clock, value] in index order. */
function readTelemetry(body) {
  const [[number, batch], extensions] = structure(decode(body), [integer(1, UINT63), value => value])
  const alarm = extensions?.has(ALARM) ? integer(1, 255)(extensions.get(ALARM)) : 0
  const shapes = [
    integer(1, 1), exactly(8), integer(0, 2), uint63, uint63, octets(Infinity), integer(0, MAXIMUM_BATCH_BYTES), octets(Infinity),
  ]
  const [, bootId, clock, monotonic, wall, names, inflated, packed] = tuple(...shapes)(batch)
  const fields = list(x => x)(decode(inflated ? inflate(packed, inflated) : packed, MAXIMUM_BATCH_BYTES))
  if (fields.length === 3) fields.push(Buffer.alloc(0))
  if (fields.length === 4) fields.push([])
  const [shape, taken, whole, doubles, spoken] = tuple(...Array(4).fill(octets(Infinity)), list(x => x))(fields)
  const series = readShape(names, shape)
  const total = (...kinds) => series.filter(each => kinds.includes(each.kind)).reduce((sum, each) => sum + each.count, 0)
  if (total(DECIMAL, BOOLEAN, FLOAT, TEXT, DATA) > MAXIMUM_READINGS) throw limit('readings')
  for (let n = 1; n < series.length; n++) if (series[n].kind < series[n - 1].kind) throw malformed('order of series')
  const steps = readVarints(taken, series.reduce((sum, each) => sum + each.own, 0))
  const times = runningSums(runningSums(steps, 0n), BigInt(clock === ASSERTED ? wall : monotonic))
  const differences = readVarints(whole, total(DECIMAL, BOOLEAN))
  const numbers = series.filter(each => each.kind <= BOOLEAN).flatMap(each => runningSums(differences.splice(0, each.count), 0n))
  if (doubles.length !== 8 * total(FLOAT)) throw malformed('floats')
  const floats = transposed(doubles, 8, total(FLOAT))
  if (spoken.length !== total(TEXT, DATA)) throw malformed('texts')
  const shift = clock === ASSERTED ? 0n : BigInt(wall) - BigInt(monotonic)
  const at = { time: 0, number: 0, float: 0, text: 0 }
  const value = ({ kind, scale }) => {
    if (kind === DECIMAL) return decimal(numbers[at.number++], scale)
    if (kind === BOOLEAN) return numbers[at.number++] !== 0n
    if (kind === FLOAT) {
      const float = floats.readDoubleLE(8 * at.float++)
      if (!Number.isFinite(float)) throw malformed('float')
      return float
    }
    return (kind === TEXT ? text(MAXIMUM_TEXT) : octets(MAXIMUM_TEXT))(spoken[at.text++])
  }
  const readings = series.flatMap(each => {
    at.time += each.own
    const own = times.slice(at.time - each.count, at.time)
    return own.map(time => [each.name, each.unit, narrow(time + shift), value(each)])
  })
  return { number, bootId, clock, series, readings, alarm: alarm > 3 ? 1 : alarm }
}

const SAFE = BigInt(Number.MAX_SAFE_INTEGER)
const narrow = big => (big >= -SAFE && big <= SAFE ? Number(big) : big)
function decimal(number, scale) {
  if (scale) return Number(number) / 10 ** scale
  return narrow(number)
}

/** The least scale at which all values are whole and of magnitude below 2^53, or null */
function scaleOf(values) {
  for (let scale = 0; scale <= 9; scale++) {
    const whole = values.map(value => Math.round(Number(value) * 10 ** scale))
    const same = (number, n) => Math.abs(number) < 2 ** 53 && number / 10 ** scale === Number(values[n]) && exact(values[n])
    if (whole.every(same)) return [scale, whole.map(BigInt)]
  }
  const whole = values.every(value => typeof value === 'bigint' || Number.isInteger(value)) ? values.map(BigInt) : null
  return whole?.every(number => number > -(2n ** 61n) && number < 2n ** 61n) ? [0, whole] : null
}
const exact = value => typeof value !== 'bigint' || (value <= SAFE && value >= -SAFE)

function writeVarints(integers) {
  const out = []
  for (const integer of integers) {
    let number = integer < 0n ? -2n * integer - 1n : 2n * integer
    for (; number > 127n; number >>= 7n) out.push(Number(number & 127n) | 128)
    out.push(Number(number))
  }
  return Buffer.from(out)
}

const differences = (values, first) => values.map((value, n) => value - (n ? values[n - 1] : first))

/** The body of a TELEMETRY; readings are [name, unit, time, value], the times by the clock's kind (section 12). */
function writeTelemetry(number, { bootId, clock, monotonic, wall }, readings) {
  const groups = new Map()
  const kindOf = value => ({ boolean: BOOLEAN, string: TEXT, number: DECIMAL, bigint: DECIMAL })[typeof value] ?? DATA
  for (const [name, unit, time, value] of readings) {
    const id = JSON.stringify([kindOf(value), name, unit])
    if (!groups.has(id)) groups.set(id, { name, unit, kind: kindOf(value), scale: 0, times: [], values: [] })
    groups.get(id).times.push(BigInt(time))
    groups.get(id).values.push(value)
  }
  const series = [...groups.values()]
  for (const each of series) {
    if (each.kind !== DECIMAL) continue
    const found = scaleOf(each.values)
    if (found) [each.scale, each.values] = found
    else each.kind = FLOAT
  }
  series.sort((one, other) => one.kind - other.kind)
  const of = (...kinds) => series.filter(each => kinds.includes(each.kind)).flatMap(each => each.values)
  const floats = of(FLOAT).map(Number)
  const raw = Buffer.alloc(8 * floats.length)
  floats.forEach((value, n) => raw.writeDoubleLE(value, 8 * n))
  const planes = Buffer.alloc(raw.length)
  for (let n = 0; n < floats.length; n++) for (let byte = 0; byte < 8; byte++) planes[byte * floats.length + n] = raw[8 * n + byte]
  const [shape, times] = [[], []]
  series.forEach(({ kind, scale, times: own }, n) => {
    const before = n ? series[n - 1].times : []
    const asBefore = own.length === before.length && own.every((time, place) => time === before[place])
    shape.push(Buffer.from([20 * kind + 2 * scale + Number(asBefore)]))
    if (!asBefore) {
      shape.push(writeVarints([BigInt(own.length)]))
      times.push(...own)
    }
  })
  const parts = [
    Buffer.concat(shape),
    writeVarints(differences(differences(times, BigInt(clock === ASSERTED ? wall : monotonic)), 0n)),
    writeVarints(series.filter(each => each.kind <= BOOLEAN).flatMap(each => differences(each.values.map(BigInt), 0n))),
    planes,
    of(TEXT, DATA),
  ]
  while (parts.length > 3 && !parts.at(-1).length) parts.pop()
  const columns = encode(parts)
  const deflated = zlib.deflateRawSync(columns)
  const smaller = deflated.length + 2 < columns.length
  const names = encode(series.flatMap(({ name, unit }) => [name, unit]))
  return encode([number, [1, bootId, clock, monotonic, wall, names, smaller ? columns.length : 0, smaller ? deflated : columns]])
}

const summarisedShape = value => {
  const [name, unit, kind, scale, count] = tuple(text(128), text(32), integer(0, 4), integer(0, 9), integer(1, MAXIMUM_WINDOWS))(value)
  if (!name || (scale && kind !== DECIMAL)) throw malformed('series')
  return { name, unit, kind, scale, count }
}

/** {numbers, window, series}: each series has windows, [first time, last time, readings, sum, minimum, maximum, first, last]. */
function readSummary(body) {
  const [[numbers, summary]] = structure(decode(body), [ranges(MAXIMUM_RANGES, 1), value => value])
  const shapes = [
    integer(1, 1), exactly(8), integer(0, 2), uint63, uint63, integer(1, MAXIMUM_WINDOW_US), integer(1, MAXIMUM_WINDOWS), integer(0, 1),
    integer(0, MAXIMUM_BATCH_BYTES), octets(Infinity),
  ]
  const [, bootId, clock, monotonic, wall, window, count, codec, inflated, packed] = tuple(...shapes)(summary)
  const written = codec ? inflate(packed, inflated) : packed
  if (written.length !== inflated) throw malformed('inflated')
  const fields = tuple(list(summarisedShape, MAXIMUM_SERIES), ...Array(9).fill(x => x), octets(Infinity))(decode(written, MAXIMUM_BATCH_BYTES))
  const [series] = fields
  for (let n = 1; n < series.length; n++) if (series[n].kind < series[n - 1].kind) throw malformed('order of series')
  const total = (...kinds) => series.filter(each => kinds.includes(each.kind)).reduce((sum, each) => sum + each.count, 0)
  if (total(DECIMAL, BOOLEAN, FLOAT, TEXT, DATA) !== count) throw malformed('windows')
  const [firsts, spans, counts] = fields.slice(1, 4).map(column => readColumn(column, count))
  const [whole, doubles] = [total(DECIMAL, BOOLEAN), total(FLOAT)]
  const values = fields.slice(4, 10).map(column => readColumn(column, whole))
  if (fields[10].length !== 40 * doubles) throw malformed('floats')
  const floats = transposed(fields[10], 8, 5 * doubles)
  const integers = n => {
    const [minimum, span, first, last, low, high] = values.map(column => column[n])
    const above = (high << 60n) + low
    const least = [span, first, last, low, high].every(each => each >= 0n)
    if (!least || first > span || last > span || above < span || above > (counts[n] - 1n) * span) throw malformed('a window')
    return [counts[n] * minimum + above, minimum, minimum + span, minimum + first, minimum + last].map(narrow)
  }
  const numbersOf = n => {
    const found = [0, 1, 2, 3, 4].map(column => floats.readDoubleLE(8 * (column * doubles + n)))
    const [, minimum, maximum, first, last] = found
    const within = [first, last].every(value => minimum <= value && value <= maximum)
    if (!found.every(Number.isFinite) || !within) throw malformed('a window')
    return found
  }
  let at = 0
  const windowsOf = ({ kind, count: many }) =>
    Array.from({ length: many }, () => {
      const n = at++
      if (spans[n] < 0n || counts[n] < 1n || counts[n] >= 2n ** 32n) throw malformed('a window')
      const said = kind <= BOOLEAN ? integers(n) : kind === FLOAT ? numbersOf(n - whole) : [0, 0, 0, 0, 0]
      return [firsts[n], firsts[n] + spans[n], counts[n]].map(narrow).concat(said)
    })
  return { numbers, bootId, clock, monotonic, wall, window, series: series.map(each => ({ ...each, windows: windowsOf(each) })) }
}

module.exports = { readSummary, readTelemetry, writeTelemetry }
