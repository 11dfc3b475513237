import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fault, newer, Sandbox, sdk, until, withSandbox } from '../help.mjs'

const exactly = (cls) => (e) => e.constructor === cls || assert.fail(`${e.constructor.name}: ${e.message}, want ${cls.name}`)

test('errors: of the control plane', async (t) => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), exactly(sdk.AuthenticationError))
  await assert.rejects(Sandbox.create({ timeoutMs: 48 * 3600_000 }), /Timeout cannot be greater than 24 hours/)
  await assert.rejects(Sandbox.getInfo('inosuchsandbox'), exactly(sdk.SandboxNotFoundError))
  await assert.rejects(Sandbox.connect('inosuchsandbox'), exactly(sdk.SandboxNotFoundError))
  await assert.rejects(Sandbox.setTimeout('inosuchsandbox', 1000), exactly(sdk.SandboxNotFoundError))
  await assert.rejects(Sandbox.pause('inosuchsandbox'), exactly(sdk.SandboxNotFoundError))
  await assert.rejects(Sandbox.getMetrics('inosuchsandbox'), exactly(sdk.SandboxNotFoundError))
  await assert.rejects(Sandbox.updateNetwork('inosuchsandbox', {}), exactly(sdk.SandboxNotFoundError))
  await assert.rejects(Sandbox.getInfo('NOT-AN-ID'), exactly(sdk.SandboxError))
})

test('errors: of the data plane', async (t) => {
  await withSandbox({}, async (sbx) => {
    await assert.rejects(sbx.commands.run('true', { cwd: '/nope' }), exactly(sdk.InvalidArgumentError))
    await assert.rejects(sbx.commands.run('true', { user: 'stranger' }), exactly(sdk.AuthenticationError))
    const stranger = new Sandbox({ sandboxId: sbx.sandboxId, envdVersion: '0.6.13', envdAccessToken: 'wrong' })
    await assert.rejects(stranger.commands.run('true'), exactly(sdk.AuthenticationError))
    await assert.rejects(stranger.files.read('f'), exactly(sdk.AuthenticationError))
    await fault(t, { op: 'write', status: 507, message: 'disk full' })
    await assert.rejects(sbx.files.write('f', 'x'), exactly(sdk.NotEnoughSpaceError))
    await fault(t, { op: 'read', status: 429, message: 'slow down' })
    await assert.rejects(sbx.files.read('f'), exactly(sdk.RateLimitError))
  })
})

test('errors: quota, rate, capacity, fault', async (t) => {
  await fault(t, { op: 'create', status: 429, message: 'you have reached the maximum number of concurrent E2B sandboxes (20)' })
  await assert.rejects(Sandbox.create(), exactly(sdk.RateLimitError))
  await fault(t, { op: 'create', status: 503, error_code: 'sandbox_capacity_unavailable' })
  await assert.rejects(Sandbox.create(), exactly(newer ? sdk.ServiceBusyError : sdk.SandboxError))
  await fault(t, { op: 'create', status: 500, error_code: 'sandbox_create_failed' })
  await assert.rejects(Sandbox.create(), exactly(sdk.SandboxError))
  const over = await fault(t, { op: 'create', count: 2, status: 429, retry_after: '1s', message: 'Rate limit exceeded' })
  if (newer) {
    const began = Date.now()
    const sbx = await Sandbox.create({ timeoutMs: 60_000 })
    assert.ok(Date.now() - began >= 1900, 'it waits as told, and comes again')
    await sbx.kill()
  } else {
    await assert.rejects(Sandbox.create(), exactly(sdk.RateLimitError))
  }
  await over()
})

test('errors: a stream that breaks', async (t) => {
  await withSandbox({}, async (sbx) => {
    await fault(t, { op: 'start', cut_after_bytes: 300 })
    const cut = await sbx.commands.run('cat', { background: true, stdin: true })
    await cut.sendStdin('x'.repeat(1000))
    await assert.rejects(cut.wait())
    const [left] = await sbx.commands.list()
    assert.equal(left.pid, cut.pid, 'the command lives on')
    const again = await sbx.commands.connect(cut.pid)
    await again.kill()
    await assert.rejects(again.wait(), sdk.CommandExitError)
  })
})

test('timeouts: of a request', async (t) => {
  const over = await fault(t, { op: 'get', hang: true, count: -1 })
  await assert.rejects(Sandbox.getInfo('inosuchsandbox', { requestTimeoutMs: 200 }), { name: 'TimeoutError' })
  await over()
  await withSandbox({}, async (sbx) => {
    const release = await fault(t, { op: 'stat', hang: true })
    await assert.rejects(sbx.files.getInfo('.', { requestTimeoutMs: 200 }), { name: 'TimeoutError' })
    await release()
    const started = await fault(t, { op: 'start', hang: true })
    await assert.rejects(sbx.commands.run('true', { requestTimeoutMs: 200 }), { name: 'TimeoutError' })
    await started()
  })
})

test('aborts: of calls and of streams', async (t) => {
  const release = await fault(t, { op: 'list', hang: true })
  const ac = new AbortController()
  const listing = Sandbox.list().nextItems({ signal: ac.signal })
  const stopped = assert.rejects(listing)
  ac.abort()
  await stopped
  await release()
  await assert.rejects(Sandbox.create({ signal: AbortSignal.abort() }))
  await withSandbox({}, async (sbx) => {
    const hung = await fault(t, { op: 'read', hang: true })
    const reading = new AbortController()
    const read = assert.rejects(sbx.files.read('f', { signal: reading.signal }))
    reading.abort()
    await read
    await hung()
    const running = new AbortController()
    const sleep = await sbx.commands.run('sleep 100', { background: true, signal: running.signal })
    const wait = sleep.wait().then(() => 'ended', () => 'broken')
    running.abort()
    await Promise.race([wait, until(async () => (await sbx.commands.list()).length === 1)])
    assert.deepEqual((await sbx.commands.list()).map((p) => p.pid), [sleep.pid], 'the command lives on')
    assert.equal(await sbx.commands.kill(sleep.pid), true)
    await wait
  })
})
