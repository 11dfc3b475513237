import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { all, newer, Sandbox, sdk, until, withSandbox } from '../help.mjs'

test('lifecycle: create, info, timeout', async () => {
  await withSandbox({ metadata: { a: 'b c' }, timeoutMs: 60_000 }, async (sbx) => {
    assert.match(sbx.sandboxId, /^i[a-z0-9]+$/)
    assert.equal(await sbx.isRunning(), true)
    const before = await sbx.getInfo()
    assert.equal(before.state, 'running')
    assert.deepEqual(before.metadata, { a: 'b c' })
    assert.equal(before.sandboxId, sbx.sandboxId)
    assert.ok(before.cpuCount > 0 && before.memoryMB > 0)
    assert.deepEqual(before.lifecycle, { onTimeout: 'kill', autoResume: false })
    assert.ok(before.endAt - before.startedAt >= 59_000)
    await sbx.setTimeout(600_000)
    const after = await Sandbox.getInfo(sbx.sandboxId)
    assert.ok(after.endAt - before.endAt > 300_000)
    await Sandbox.setTimeout(sbx.sandboxId, 30_000)
    assert.ok((await sbx.getInfo()).endAt < before.endAt, 'it may be shortened')
    assert.equal((await Sandbox.getFullInfo(sbx.sandboxId)).sandboxId, sbx.sandboxId)
    assert.ok(sbx.getHost(3000).startsWith(`3000-${sbx.sandboxId}.`))
  })
})

test('lifecycle: connect to a running one', async () => {
  await withSandbox({ timeoutMs: 300_000 }, async (sbx) => {
    const end = (await sbx.getInfo()).endAt
    const other = await Sandbox.connect(sbx.sandboxId, { timeoutMs: 10_000 })
    assert.equal((await sbx.getInfo()).endAt.getTime(), end.getTime(), 'connect never shortens')
    await other.files.write('shared', 'x')
    assert.equal(await sbx.files.read('shared'), 'x')
    await other.connect({ timeoutMs: 900_000 })
    assert.ok((await sbx.getInfo()).endAt - end > 300_000)
  })
})

test('lifecycle: pause keeps memory', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 60_000 })
  await sbx.files.write('kept', 'yes')
  const gate = await sbx.commands.run('read x; echo woke $x > woke', { background: true, stdin: true })
  const broken = assert.rejects(gate.wait())
  assert.equal(await sbx.pause(), true)
  await broken
  assert.equal(await sbx.pause(), false)
  assert.equal(await sbx.isRunning(), false)
  assert.equal((await sbx.getInfo()).state, 'paused')
  await assert.rejects(sbx.commands.run('true'), sdk.SandboxNotFoundError)
  await assert.rejects(sbx.files.read('kept'), sdk.TimeoutError)

  const again = await Sandbox.connect(sbx.sandboxId)
  assert.equal(await again.isRunning(), true)
  assert.equal(await sbx.files.read('kept'), 'yes', 'the token stays')
  assert.ok((await again.commands.list()).some((p) => p.pid === gate.pid))
  const rest = await again.commands.connect(gate.pid)
  await again.commands.sendStdin(gate.pid, 'up\n')
  assert.equal((await rest.wait()).exitCode, 0)
  assert.equal(await again.files.read('woke'), 'woke up\n')
  assert.equal(await Sandbox.kill(sbx.sandboxId), true)
})

test('lifecycle: pause without memory is a reboot', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.write('kept', 'yes')
    await sbx.commands.run('sleep 100', { background: true }).then((h) => h.disconnect())
    assert.equal(await sbx.pause({ keepMemory: false }), true)
    await sbx.connect()
    assert.equal(await sbx.files.read('kept'), 'yes')
    assert.deepEqual(await sbx.commands.list(), [])
  })
})

test('lifecycle: pause by its other names', async () => {
  await withSandbox({}, async (sbx) => {
    for (const pause of [() => sbx.betaPause(), () => Sandbox.betaPause(sbx.sandboxId), () => Sandbox.pause(sbx.sandboxId)]) {
      assert.equal(await pause(), true)
      assert.equal(await pause(), false)
      assert.equal((await Sandbox.getInfo(sbx.sandboxId)).state, 'paused')
      await sbx.connect()
    }
  })
})

test('lifecycle: reboot at a resume', { skip: !newer && 'not in this version' }, async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.commands.run('sleep 100', { background: true }).then((h) => h.disconnect())
    await sbx.pause()
    await sbx.connect({ onResume: 'reboot' })
    assert.deepEqual(await sbx.commands.list(), [])
  })
})

test('lifecycle: killed at its end', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 60_000 })
  await sbx.setTimeout(0)
  await until(async () => !(await sbx.isRunning()))
  await assert.rejects(sbx.getInfo(), sdk.SandboxNotFoundError)
})

test('lifecycle: paused at its end, woken by traffic', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  assert.deepEqual((await sbx.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await sbx.files.write('kept', 'yes')
  await sbx.setTimeout(0)
  await until(async () => (await sbx.getInfo()).state === 'paused')
  assert.equal(await sbx.files.read('kept'), 'yes', 'a file call wakes it')
  assert.equal((await sbx.getInfo()).state, 'running')
  await sbx.kill()
})

test('lifecycle: paused at its end, not woken', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause' } })
  await sbx.setTimeout(0)
  await until(async () => (await sbx.getInfo()).state === 'paused')
  await assert.rejects(sbx.commands.run('true'), sdk.SandboxNotFoundError)
  assert.equal((await sbx.getInfo()).state, 'paused')
  await sbx.kill()
})

test('lifecycle: kill', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 60_000 })
  const doomed = await sbx.commands.run('sleep 100', { background: true })
  const ended = assert.rejects(doomed.wait(), sdk.TimeoutError)
  assert.equal(await sbx.kill(), true)
  await ended
  assert.equal(await sbx.isRunning(), false)
  assert.equal(await sbx.kill(), false)
  assert.equal(await Sandbox.kill(sbx.sandboxId), false)
})

test('network: rules are stored and returned', async () => {
  await withSandbox({ network: { allowOut: ['10.0.0.0/8'], denyOut: ['0.0.0.0/0'], maskRequestHost: 'x.example' } }, async (sbx) => {
    const { network } = await sbx.getInfo()
    assert.deepEqual(network.allowOut, ['10.0.0.0/8'])
    assert.deepEqual(network.denyOut, ['0.0.0.0/0'])
    await sbx.updateNetwork({ denyOut: ['192.168.0.0/16'] })
    const changed = (await sbx.getInfo()).network
    assert.deepEqual(changed.denyOut, ['192.168.0.0/16'])
    assert.equal(changed.allowOut, undefined, 'an update replaces all')
  })
  await withSandbox({ allowInternetAccess: false, network: { allowPublicTraffic: false } }, async (sbx) => {
    assert.equal((await sbx.getInfo()).allowInternetAccess, false)
    assert.ok(sbx.trafficAccessToken)
    const res = await fetch(process.env.E2B_SANDBOX_URL, {
      headers: { 'E2b-Sandbox-Id': sbx.sandboxId, 'E2b-Sandbox-Port': '3000' },
    })
    assert.equal(res.status, 403)
  })
})

test('network: rules hold from one update to the next', async () => {
  const heard = createServer((req, res) => res.end(req.headers['x-key'] ?? 'none'))
  await new Promise((resolve) => heard.listen(0, '127.0.0.1', resolve))
  const ask = `curl -s -w ' %{http_code}' http://127.0.0.1:${heard.address().port}`
  const allowOut = ['127.0.0.1']
  const rules = { '127.0.0.1': [{ transform: { headers: { 'X-Key': 'secret' } } }] }
  try {
    await withSandbox({ network: { allowOut, rules } }, async (sbx) => {
      const out = async () => (await sbx.commands.run(ask)).stdout
      assert.equal(await out(), 'secret 200')
      await sbx.updateNetwork({ allowOut })
      assert.equal(await out(), 'none 200')
      await sbx.updateNetwork({ allowOut, rules })
      assert.equal(await out(), 'secret 200')
      assert.deepEqual((await sbx.getInfo()).network.rules, rules)
      await sbx.updateNetwork({ denyOut: allowOut })
      assert.match(await out(), / 403$/)
      await Sandbox.updateNetwork(sbx.sandboxId, { allowInternetAccess: false })
      assert.equal((await sbx.getInfo()).allowInternetAccess, false)
      assert.match((await sbx.commands.run("curl -s -w ' %{http_code}' http://192.0.2.1")).stdout, / 403$/)
    })
  } finally {
    heard.close()
  }
})

test('metrics: now and of an interval', async () => {
  await withSandbox({}, async (sbx) => {
    const now = await sbx.getMetrics()
    assert.ok(now.length > 0)
    const last = now.at(-1)
    assert.ok(last.timestamp instanceof Date && last.memTotal > 0 && last.diskTotal > 0 && last.cpuCount > 0)
    const hour = 3600_000
    const recent = await Sandbox.getMetrics(sbx.sandboxId, { start: new Date(Date.now() - hour), end: new Date(Date.now() + hour) })
    assert.ok(recent.length > 0)
    assert.deepEqual(await sbx.getMetrics({ start: new Date(Date.now() - 2 * hour), end: new Date(Date.now() - hour) }), [])
  })
})

test('lifecycle: the client object', async () => {
  const client = new sdk.E2B({ apiKey: process.env.E2B_API_KEY })
  const sbx = await client.Sandbox.create({ timeoutMs: 60_000, metadata: { by: 'client' } })
  const found = await all(client.Sandbox.list({ query: { metadata: { by: 'client' } } }))
  assert.deepEqual(found.map((s) => s.sandboxId), [sbx.sandboxId])
  await sbx.kill()
})
