import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collector, home, Sandbox, sdk, until, withSandbox } from '../help.mjs'

test('commands: output, exit code, environment, directory, user', async () => {
  await withSandbox({ envs: { BOX: 'one', BOTH: 'box' } }, async (sbx) => {
    const out = await sbx.commands.run('echo hi; echo err >&2; echo "$BOX $BOTH $CALL"; pwd; whoami; echo $HOME', {
      envs: { CALL: 'two', BOTH: 'call' },
      cwd: '/tmp',
    })
    assert.equal(out.exitCode, 0)
    assert.equal(out.stderr, 'err\n')
    if (home) assert.equal(out.stdout, `hi\none call two\n/tmp\nuser\n${home}\n`)
    await assert.rejects(sbx.commands.run('echo o; echo e >&2; exit 3'), (e) =>
      e instanceof sdk.CommandExitError && e.exitCode === 3 && e.stdout === 'o\n' && e.stderr === 'e\n')
    await assert.rejects(sbx.commands.run('no-such-command'), (e) => e.exitCode === 127 && /not found/.test(e.stderr))
    const su = await sbx.commands.run('id -u; echo $HOME', { user: 'root' })
    if (home) assert.equal(su.stdout, '0\n/root\n')
  })
})

test('commands: output as it comes', async () => {
  await withSandbox({}, async (sbx) => {
    const out = collector()
    const errs = collector()
    const cmd = await sbx.commands.run('echo one; echo bad >&2; read x; echo two', {
      background: true,
      stdin: true,
      onStdout: out.add,
      onStderr: errs.add,
    })
    await out.until((s) => s.join('') === 'one\n')
    await errs.until((s) => s.join('') === 'bad\n')
    await cmd.sendStdin('\n')
    const end = await cmd.wait()
    assert.deepEqual([end.stdout, end.stderr, end.exitCode], ['one\ntwo\n', 'bad\n', 0])
    assert.equal(cmd.exitCode, 0)
    assert.deepEqual([cmd.stdout, cmd.stderr, cmd.error], ['one\ntwo\n', 'bad\n', undefined])
  })
})

test('commands: much output, and characters that are cut', async () => {
  await withSandbox({}, async (sbx) => {
    const storm = await sbx.commands.run('seq 100000')
    assert.equal(storm.stdout.length, 588_895)
    assert.ok(storm.stdout.endsWith('99999\n100000\n'))
    const text = await sbx.commands.run("printf '\\303'; sleep 0.05; printf '\\244\\342'; sleep 0.05; printf '\\202\\254\\n'")
    assert.equal(text.stdout, 'ä€\n')
  })
})

test('commands: list and kill', async () => {
  await withSandbox({}, async (sbx) => {
    const sleep = await sbx.commands.run('sleep 100', { background: true, envs: { K: 'v' }, cwd: '/tmp' })
    const [listed] = await sbx.commands.list()
    assert.equal(listed.pid, sleep.pid)
    assert.equal(listed.cmd, '/bin/bash')
    assert.deepEqual(listed.args, ['-l', '-c', 'sleep 100'])
    assert.equal(listed.cwd, '/tmp')
    assert.equal(listed.envs.K, 'v')
    assert.equal(await sleep.kill(), true)
    await assert.rejects(sleep.wait(), (e) => e instanceof sdk.CommandExitError && e.exitCode === -1 && e.error === 'signal: killed')
    assert.equal(await sbx.commands.kill(sleep.pid), false)
    assert.deepEqual(await sbx.commands.list(), [])
  })
})

test('commands: reconnect', async () => {
  await withSandbox({}, async (sbx) => {
    const gate = await sbx.commands.run('read x; echo got $x; exit 4', { background: true, stdin: true })
    await gate.disconnect()
    const again = await sbx.commands.connect(gate.pid)
    const twice = await (await Sandbox.connect(sbx.sandboxId)).commands.connect(gate.pid)
    await sbx.commands.sendStdin(gate.pid, 'it\n')
    for (const h of [again, twice]) await assert.rejects(h.wait(), (e) => e.exitCode === 4 && e.stdout === 'got it\n')
    const late = await sbx.commands.connect(gate.pid)
    await assert.rejects(late.wait(), (e) => e.exitCode === 4 && e.stdout === '', 'the end is kept, the output is not')
    await assert.rejects(sbx.commands.connect(999_999), sdk.NotFoundError)
  })
})

test('stdin: text, bytes, end', async () => {
  await withSandbox({}, async (sbx) => {
    const cat = await sbx.commands.run('cat; echo; echo end', { background: true, stdin: true })
    await sbx.commands.sendStdin(cat.pid, 'text ')
    await cat.sendStdin(new TextEncoder().encode('bytes '))
    await sbx.commands.sendStdin(cat.pid, 'x'.repeat(1 << 20))
    await cat.closeStdin()
    const { stdout } = await cat.wait()
    assert.equal(stdout.length, 'text bytes '.length + (1 << 20) + '\nend\n'.length)
    assert.ok(stdout.startsWith('text bytes x') && stdout.endsWith('x\nend\n'))
    await assert.rejects(sbx.commands.sendStdin(cat.pid, 'late'), sdk.NotFoundError)
    assert.equal(sbx.commands.supportsStdinClose, true)
    const other = await sbx.commands.run('cat', { background: true, stdin: true })
    await sbx.commands.closeStdin(other.pid)
    assert.equal((await other.wait()).exitCode, 0)
    await assert.rejects(sbx.commands.closeStdin(other.pid), sdk.NotFoundError)
  })
})

test('stdin: off unless asked for', async () => {
  await withSandbox({}, async (sbx) => {
    assert.equal((await sbx.commands.run('cat')).stdout, '')
    const sleep = await sbx.commands.run('sleep 100', { background: true })
    await assert.rejects(sbx.commands.sendStdin(sleep.pid, 'x'), sdk.SandboxError)
    await sleep.kill()
  })
})

test('timeouts: of a command', async () => {
  await withSandbox({}, async (sbx) => {
    await assert.rejects(sbx.commands.run('sleep 100', { timeoutMs: 500 }), sdk.TimeoutError)
    await until(async () => (await sbx.commands.list()).length === 0)
    const free = await sbx.commands.run('sleep 0.2; echo done', { timeoutMs: 0 })
    assert.equal(free.stdout, 'done\n', '0 is no limit')
    const watched = await sbx.commands.run('read x; echo $x', { background: true, stdin: true })
    await watched.disconnect()
    await assert.rejects(async () => {
      const short = await sbx.commands.connect(watched.pid, { timeoutMs: 500 })
      await short.wait()
    }, sdk.TimeoutError)
    assert.equal((await sbx.commands.list()).length, 1, 'who only watches ends nothing')
    await sbx.commands.kill(watched.pid)
  })
})
