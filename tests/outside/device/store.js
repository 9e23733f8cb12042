// A device's durable state: names and values, of which some change together. One line of the journal is one commit.
'use strict'
const crypto = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')

const digest = text => crypto.createHash('sha256').update(text).digest('hex').slice(0, 16)
const line = changes => {
  const text = JSON.stringify(changes)
  return `${digest(text)} ${text}\n`
}

class Store {
  constructor(folder) {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.folder = folder
    this.path = path.join(folder, 'journal')
    this.values = new Map()
    this.load()
    this.rewrite()
  }

  /** A last line that a crash has cut was never committed: nothing of it was sent or acknowledged. */
  load() {
    let text = ''
    try {
      text = fs.readFileSync(this.path, 'utf8')
    } catch (error) {
      if (error.code !== 'ENOENT') throw error
    }
    const lines = text.split('\n')
    lines.forEach((each, n) => {
      const [mark, json] = [each.slice(0, 16), each.slice(17)]
      if (mark && mark === digest(json)) return this.apply(JSON.parse(json))
      if (n < lines.length - 1) throw new Error(`${this.path}: line ${n + 1} is damaged`)
    })
  }

  apply(changes) {
    for (const [name, value] of changes) value === null ? this.values.delete(name) : this.values.set(name, value)
  }

  /** Begins each run with one line, so that the journal stays as long as the state. */
  rewrite() {
    const fresh = this.path + '.new'
    const file = fs.openSync(fresh, 'w', 0o600)
    fs.writeSync(file, line([...this.values]))
    fs.fsyncSync(file)
    fs.closeSync(file)
    fs.renameSync(fresh, this.path)
    const folder = fs.openSync(this.folder, 'r')
    fs.fsyncSync(folder)
    fs.closeSync(folder)
    this.file = fs.openSync(this.path, 'a')
  }

  get(name) {
    return this.values.get(name)
  }

  /** [rest of the name, value] of all names that begin so, in order */
  *under(prefix) {
    const names = [...this.values.keys()].filter(name => name.startsWith(prefix)).sort()
    for (const name of names) yield [name.slice(prefix.length), this.values.get(name)]
  }

  /** Stores all of it, or nothing; it is on the disk when this returns. A value of null takes a name away. */
  commit(changes) {
    if (!changes.length) return
    const bytes = Buffer.from(line(changes))
    if (fs.writeSync(this.file, bytes) !== bytes.length) throw new Error('the disk is full')
    fs.fdatasyncSync(this.file)
    this.apply(changes)
  }
}

module.exports = { Store }
