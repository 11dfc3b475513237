// Notes which methods of an SDK's classes the tests call, as "Class.static" and
// "Class#method", and leaves the list in the file that CALLS_FILE names. What the
// SDK calls itself does not count.
import { AsyncLocalStorage } from 'node:async_hooks'
import { writeFileSync } from 'node:fs'

const called = new Set()
const watched = new Set()
const inside = new AsyncLocalStorage()
const modules = ['files', 'commands', 'pty', 'git']

export function watchCalls({ Sandbox, Secret, TemplateBase, Volume }) {
  if (!process.env.CALLS_FILE) return
  for (const cls of [Sandbox, Secret, TemplateBase, Volume]) watch(cls)
  process.on('exit', () => writeFileSync(process.env.CALLS_FILE, [...called].sort().join('\n')))
}

function watch(cls) {
  for (; cls?.prototype && !watched.has(cls); cls = Object.getPrototypeOf(cls)) {
    watched.add(cls)
    wrap(cls, `${cls.name}.`)
    wrap(cls.prototype, `${cls.name}#`)
  }
}

function wrap(on, prefix) {
  for (const [name, was] of Object.entries(Object.getOwnPropertyDescriptors(on))) {
    if (name === 'constructor' || !was.configurable) continue
    const kind = was.get ? 'get' : 'value'
    if (typeof was[kind] !== 'function') continue
    const original = was[kind]
    was[kind] = function (...args) {
      if (!inside.getStore()) called.add(prefix + name)
      const got = inside.run(true, () => original.apply(this, args))
      return got instanceof Promise ? got.then(meet) : meet(got)
    }
    Object.defineProperty(on, name, was)
  }
}

// Watches the class of what a call gave, if it is one of the SDK's: those that it
// does not export are met here.
function meet(got) {
  const cls = got?.constructor
  if (cls && /^(Sandbox|.*Handle|.*Paginator)$/.test(cls.name)) watch(cls)
  if (cls?.name === 'Sandbox') for (const m of modules) if (got[m]) watch(got[m].constructor)
  return got
}
