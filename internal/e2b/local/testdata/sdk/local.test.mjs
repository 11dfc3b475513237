// Runs the official SDK, unmodified, against the server named by E2B_API_URL
// and E2B_SANDBOX_URL. One test a subject; each has sandboxes of its own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as e2b from 'e2b'

const { Sandbox } = e2b

async function withSandbox(opts, body) {
  const sbx = await Sandbox.create({ timeoutMs: 60_000, ...opts })
  try {
    await body(sbx)
  } finally {
    await sbx.kill()
  }
}

async function all(paginator) {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found
}

test('commands: output, exit code, environment, directory', async () => {
  await withSandbox({ envs: { BOX: 'one', BOTH: 'box' } }, async (sbx) => {
    const out = await sbx.commands.run('echo hi; echo err >&2; echo "$BOX $BOTH $CALL"; pwd; whoami; echo $HOME', {
      envs: { CALL: 'two', BOTH: 'call' },
      cwd: '/tmp',
    })
    assert.equal(out.exitCode, 0)
    assert.equal(out.stderr, 'err\n')
    const home = process.env.SANDBOX_HOME
    if (home) assert.equal(out.stdout, `hi\none call two\n/tmp\nuser\n${home}\n`)
    await assert.rejects(sbx.commands.run('exit 3'), (e) => e instanceof e2b.CommandExitError && e.exitCode === 3)
    await assert.rejects(sbx.commands.run('true', { cwd: '/nope' }), e2b.InvalidArgumentError)
    await assert.rejects(sbx.commands.run('sleep 30', { timeoutMs: 300 }), e2b.TimeoutError)
    await assert.rejects(sbx.commands.run('true', { user: 'stranger' }), e2b.AuthenticationError)
    const su = await sbx.commands.run('echo $HOME', { user: 'root' })
    if (home) assert.equal(su.stdout, '/root\n')
  })
})

test('commands: background, input, kill, reconnect', async () => {
  await withSandbox({}, async (sbx) => {
    let heard = ''
    const cat = await sbx.commands.run('cat', { background: true, stdin: true, onStdout: (d) => (heard += d) })
    const listed = await sbx.commands.list()
    assert.ok(listed.some((p) => p.pid === cat.pid && p.args.includes('cat')))
    await sbx.commands.sendStdin(cat.pid, 'to cat\n')
    await sbx.commands.closeStdin(cat.pid)
    assert.equal((await cat.wait()).stdout, 'to cat\n')
    assert.equal(heard, 'to cat\n')

    const sleep = await sbx.commands.run('sleep 100', { background: true })
    assert.equal(await sleep.kill(), true)
    await assert.rejects(sleep.wait(), (e) => e instanceof e2b.CommandExitError && e.exitCode === -1)
    assert.equal(await sbx.commands.kill(sleep.pid), false)

    const gate = await sbx.commands.run('read x; echo got $x; exit 4', { background: true, stdin: true })
    await gate.disconnect()
    const again = await sbx.commands.connect(gate.pid)
    await sbx.commands.sendStdin(gate.pid, 'it\n')
    await assert.rejects(again.wait(), (e) => e.exitCode === 4 && e.stdout === 'got it\n')
  })
})

test('pty', async () => {
  await withSandbox({}, async (sbx) => {
    let seen = ''
    let done
    const sized = new Promise((resolve) => (done = resolve))
    const term = await sbx.pty.create({
      cols: 80,
      rows: 24,
      onData: (d) => {
        seen += new TextDecoder().decode(d)
        if (seen.includes('44 100')) done()
      },
    })
    await sbx.pty.resize(term.pid, { cols: 100, rows: 44 })
    await sbx.pty.sendInput(term.pid, new TextEncoder().encode('stty size; tty\n'))
    await sized
    await sbx.pty.sendInput(term.pid, new TextEncoder().encode('exit\n'))
    assert.equal((await term.wait()).exitCode, 0)
  })
})

test('files', async () => {
  await withSandbox({}, async (sbx) => {
    const info = await sbx.files.write('a/b.txt', 'hello')
    assert.equal(info.path, '/home/user/a/b.txt')
    assert.equal(await sbx.files.read('a/b.txt'), 'hello')
    assert.deepEqual([...(await sbx.files.read('a/b.txt', { format: 'bytes' }))], [...Buffer.from('hello')])
    await sbx.files.write('empty', '')
    assert.equal(await sbx.files.read('empty'), '')
    const many = await sbx.files.write([
      { path: '/home/user/m/1', data: 'one' },
      { path: '/tmp/2', data: new Blob(['two']) },
    ])
    assert.deepEqual(many.map((f) => f.path), ['/home/user/m/1', '/tmp/2'])
    assert.equal(await sbx.files.read('/tmp/2'), 'two')
    assert.equal(await sbx.files.exists('a/b.txt'), true)
    assert.equal(await sbx.files.exists('a/c.txt'), false)
    assert.equal(await sbx.files.makeDir('a/d'), true)
    assert.equal(await sbx.files.makeDir('a/d'), false)
    const moved = await sbx.files.rename('a/b.txt', 'a/d/c.txt')
    assert.equal(moved.path, '/home/user/a/d/c.txt')
    const list = await sbx.files.list('a', { depth: 2 })
    assert.deepEqual(list.map((e) => [e.path, e.type]), [
      ['/home/user/a/d', 'dir'],
      ['/home/user/a/d/c.txt', 'file'],
    ])
    const stat = await sbx.files.getInfo('a/d/c.txt')
    assert.equal(stat.size, 5)
    assert.equal(stat.owner, 'user')
    await sbx.files.remove('a')
    await sbx.files.remove('a')
    await assert.rejects(sbx.files.read('a/d/c.txt'), e2b.FileNotFoundError)
    await assert.rejects(sbx.files.list('a'), e2b.FileNotFoundError)
    await assert.rejects(sbx.files.list('empty'), e2b.InvalidArgumentError)
    await assert.rejects(sbx.files.read('m'), e2b.InvalidArgumentError)
    const out = await sbx.commands.run('cat m/1; stat -c %U m/1')
    if (process.env.SANDBOX_HOME === '/home/user') assert.equal(out.stdout, 'oneuser\n')

    const stream = new Blob(['x'.repeat(100_000)]).stream()
    await sbx.files.write('streamed', stream)
    assert.equal((await sbx.files.read('streamed')).length, 100_000)
    await sbx.files.write('zipped', 'z'.repeat(1000), { gzip: true })
    assert.equal(await sbx.files.read('zipped', { gzip: true }), 'z'.repeat(1000))
    await sbx.files.write('meta', 'm', { metadata: { kind: 'test' } })
    assert.deepEqual((await sbx.files.getInfo('meta')).metadata, { kind: 'test' })
  })
})

test('files: watch', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.makeDir('w')
    const events = []
    let wake = () => {}
    const seen = async (want) => {
      while (!events.some((e) => want(e))) await new Promise((resolve) => (wake = resolve))
    }
    const handle = await sbx.files.watchDir('w', (e) => { events.push(e); wake() }, { recursive: true, includeEntry: true })
    await sbx.files.write('w/new.txt', 'x')
    await seen((e) => e.name === 'new.txt' && e.type === 'create')
    await seen((e) => e.name === 'new.txt' && e.type === 'write')
    assert.ok(events.some((e) => e.entry?.path === '/home/user/w/new.txt'))
    await sbx.files.makeDir('w/deep')
    await seen((e) => e.name === 'deep')
    await sbx.files.write('w/deep/er.txt', 'x')
    await seen((e) => e.name === 'deep/er.txt')
    await sbx.files.rename('w/new.txt', 'w/old.txt')
    await seen((e) => e.name === 'new.txt' && e.type === 'rename')
    await sbx.files.remove('w/old.txt')
    await seen((e) => e.name === 'old.txt' && e.type === 'remove')
    await handle.stop()
  })
})

test('files: signed addresses', async () => {
  await withSandbox({}, async (sbx) => {
    const form = new FormData()
    form.append('file', new Blob(['signed']), 's.txt')
    const up = await fetch(await sbx.uploadUrl('s.txt', { useSignatureExpiration: 60_000 }), { method: 'POST', body: form })
    assert.equal(up.status, 200)
    const down = await sbx.downloadUrl('s.txt')
    assert.equal(await (await fetch(down)).text(), 'signed')
    assert.equal((await fetch(down.replace('s.txt', 't.txt'))).status, 401)
  })
})

test('life: info, timeout, list, pages, metadata', async () => {
  const mark = `m ${Date.now()}&=%`
  const boxes = []
  for (let i = 0; i < 3; i++) boxes.push(await Sandbox.create({ metadata: { mark, n: String(i) }, timeoutMs: 60_000 }))
  try {
    const ids = boxes.map((b) => b.sandboxId)
    const paged = await all(Sandbox.list({ limit: 2, query: { metadata: { mark } } }))
    assert.deepEqual(paged.map((b) => b.sandboxId), ids.toReversed())
    const one = await all(Sandbox.list({ query: { metadata: { mark, n: '1' } } }))
    assert.deepEqual(one.map((b) => b.sandboxId), [ids[1]])
    const before = await boxes[0].getInfo()
    assert.equal(before.state, 'running')
    assert.equal(before.metadata.mark, mark)
    await boxes[0].setTimeout(600_000)
    const after = await boxes[0].getInfo()
    assert.ok(after.endAt - before.endAt > 300_000)
    assert.equal(await boxes[1].pause(), true)
    const paused = await all(Sandbox.list({ query: { metadata: { mark }, state: ['paused'] } }))
    assert.deepEqual(paused.map((b) => b.sandboxId), [ids[1]])
    assert.ok((await boxes[0].getMetrics()).length > 0)
  } finally {
    await Promise.all(boxes.map((b) => b.kill()))
  }
  assert.equal((await all(Sandbox.list({ query: { metadata: { mark } } }))).length, 0)
})

test('life: pause, connect, kill', async () => {
  const sbx = await Sandbox.create({ timeoutMs: 60_000 })
  await sbx.files.write('kept', 'yes')
  const counter = await sbx.commands.run('echo $$ > pid; read x; echo woke $x > woke', { background: true, stdin: true })
  const broken = assert.rejects(counter.wait())
  assert.equal(await sbx.pause(), true)
  await broken
  assert.equal(await sbx.pause(), false)
  assert.equal(await sbx.isRunning(), false)
  await assert.rejects(sbx.commands.run('true'), e2b.SandboxNotFoundError)
  await assert.rejects(sbx.files.read('kept'), e2b.TimeoutError)

  const again = await Sandbox.connect(sbx.sandboxId)
  assert.equal(await again.isRunning(), true)
  assert.equal(await again.files.read('kept'), 'yes')
  assert.ok((await again.commands.list()).some((p) => p.pid === counter.pid))
  const rest = await again.commands.connect(counter.pid)
  await again.commands.sendStdin(counter.pid, 'up\n')
  assert.equal((await rest.wait()).exitCode, 0)
  assert.equal(await again.files.read('woke'), 'woke up\n')

  const doomed = await again.commands.run('sleep 100', { background: true })
  const ended = assert.rejects(doomed.wait(), e2b.TimeoutError)
  assert.equal(await again.kill(), true)
  await ended
  assert.equal(await Sandbox.kill(sbx.sandboxId), false)
  await assert.rejects(Sandbox.getInfo(sbx.sandboxId), e2b.SandboxNotFoundError)
  await assert.rejects(Sandbox.connect(sbx.sandboxId), e2b.SandboxNotFoundError)
  await assert.rejects(again.setTimeout(1000), e2b.SandboxNotFoundError)
})

test('errors of the control plane', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), e2b.AuthenticationError)
  await assert.rejects(Sandbox.create({ timeoutMs: 48 * 3600_000 }), /Timeout cannot be greater than 24 hours/)
  await assert.rejects(Sandbox.getInfo('inosuchsandbox'), e2b.SandboxNotFoundError)
})
