import { watchCalls } from './calls.mjs'

export const name = process.env.SDK ?? 'e2b'
export const sdk = await import(name)
export const { Sandbox } = sdk
watchCalls(sdk)

// What only the newer SDK does.
export const newer = name !== 'e2b-2.45'

// Where a sandbox's commands find their home; unset where isolation has no say.
export const home = process.env.SANDBOX_HOME

export async function withSandbox(opts, body) {
  const sbx = await Sandbox.create({ timeoutMs: 120_000, ...opts })
  try {
    await body(sbx)
  } finally {
    await sbx.kill()
  }
}

export async function all(paginator) {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found
}

// Arms a failure of the server; the end of the test or the returned function
// takes it out.
export async function fault(t, f) {
  const res = await fetch(process.env.FAULTS_URL, { method: 'POST', body: JSON.stringify(f) })
  if (!res.ok) throw new Error(await res.text())
  const id = await res.text()
  const remove = () => fetch(`${process.env.FAULTS_URL}?id=${id}`, { method: 'DELETE' })
  t.after(remove)
  return remove
}

// How long a test waits for what must happen. The test runner itself has no limit.
const patience = 60_000

// Waits until ask gives something true.
export async function until(ask) {
  for (const end = Date.now() + patience; ;) {
    const got = await ask()
    if (got) return got
    if (Date.now() > end) throw new Error(`not within ${patience} ms: ${ask}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

// A list that can be waited for.
export function collector() {
  const seen = []
  let wake = () => {}
  return {
    seen,
    add: (x) => { seen.push(x); wake() },
    async until(want) {
      let late
      const over = new Promise((_, reject) => {
        late = setTimeout(() => reject(new Error(`not within ${patience} ms: ${want}, of ${seen}`)), patience)
      })
      try {
        while (!want(seen)) await Promise.race([over, new Promise((resolve) => (wake = resolve))])
      } finally {
        clearTimeout(late)
      }
    },
  }
}
