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

const seriesShape = value => {
  const [name, unit, kind, scale, count] = tuple(text(128), text(32), integer(0, 4), integer(0, 9), integer(1, MAXIMUM_READINGS))(value)
  if (!name || (scale && kind !== DECIMAL)) throw malformed('series')
  return { name, unit, kind, scale, count }
}

/** {number, batch, readings}: readings are [name, unit, time by the device's clock, value] in index order. */
function readTelemetry(body) {
  const [[number, batch], extensions] = structure(decode(body), [integer(1, UINT63), value => value])
  const alarm = extensions?.has(ALARM) ? integer(1, 255)(extensions.get(ALARM)) : 0
  const shapes = [
    integer(1, 1), exactly(8), integer(0, 2), uint63, uint63, integer(0, MAXIMUM_READINGS), integer(0, 1), integer(0, MAXIMUM_BATCH_BYTES),
    octets(Infinity),
  ]
  const [, bootId, clock, monotonic, wall, count, codec, inflated, packed] = tuple(...shapes)(batch)
  const columns = codec ? inflate(packed, inflated) : packed
  if (columns.length !== inflated) throw malformed('inflated')
  const fields = tuple(list(seriesShape, MAXIMUM_SERIES), x => x, x => x, octets(Infinity), x => x)(decode(columns, MAXIMUM_BATCH_BYTES))
  const [series] = fields
  for (let n = 1; n < series.length; n++) if (series[n].kind < series[n - 1].kind) throw malformed('order of series')
  const total = (...kinds) => series.filter(each => kinds.includes(each.kind)).reduce((sum, each) => sum + each.count, 0)
  if (total(DECIMAL, BOOLEAN, FLOAT, TEXT, DATA) !== count) throw malformed('count')
  const times = readColumn(fields[1], count)
  const numbers = readColumn(fields[2], total(DECIMAL, BOOLEAN))
  if (fields[3].length !== 8 * total(FLOAT)) throw malformed('floats')
  const floats = transposed(fields[3], 8, total(FLOAT))
  const texts = list(x => x)(fields[4])
  if (texts.length !== total(TEXT, DATA)) throw malformed('texts')
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
    return (kind === TEXT ? text(MAXIMUM_TEXT) : octets(MAXIMUM_TEXT))(texts[at.text++])
  }
  const readings = series.flatMap(each =>
    Array.from({ length: each.count }, () => [each.name, each.unit, narrow(times[at.time++] + shift), value(each)]),
  )
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

function writeColumn(values) {
  if (!values.length) return [0, 1, Buffer.alloc(0)]
  const steps = values.map((value, n) => (n ? value - values[n - 1] : 0n))
  const width = [1, 2, 4, 8].find(size => steps.every(step => step >= -(1n << BigInt(8 * size - 1)) && step < 1n << BigInt(8 * size - 1)))
  const raw = Buffer.alloc(8 * steps.length)
  steps.forEach((step, n) => raw.writeBigInt64LE(step, 8 * n))
  const planes = Buffer.alloc(width * steps.length)
  for (let n = 0; n < steps.length; n++) for (let byte = 0; byte < width; byte++) planes[byte * steps.length + n] = raw[8 * n + byte]
  return [values[0], width, planes]
}

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
  const columns = encode([
    series.map(({ name, unit, kind, scale, values }) => [name, unit, kind, scale, values.length]),
    writeColumn(series.flatMap(each => each.times)),
    writeColumn(of(DECIMAL, BOOLEAN).map(BigInt)),
    planes,
    of(TEXT, DATA),
  ])
  const packed = zlib.deflateRawSync(columns)
  const smaller = packed.length < columns.length
  return encode([number, [1, bootId, clock, monotonic, wall, readings.length, Number(smaller), columns.length, smaller ? packed : columns]])
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
