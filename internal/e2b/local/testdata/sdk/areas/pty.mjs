import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collector, sdk, withSandbox } from '../help.mjs'

const bytes = (s) => new TextEncoder().encode(s)
const text = (seen) => Buffer.concat(seen).toString()

test('pty: size, input, end', async () => {
  await withSandbox({}, async (sbx) => {
    const out = collector()
    const term = await sbx.pty.create({ cols: 80, rows: 24, cwd: '/tmp', envs: { PTY_VAR: 'v' }, onData: out.add })
    await sbx.pty.sendInput(term.pid, bytes('stty size; echo "$PTY_VAR $TERM"\n'))
    await out.until((s) => text(s).includes('24 80') && text(s).includes('v xterm-256color'))
    await sbx.pty.resize(term.pid, { cols: 100, rows: 44 })
    await sbx.pty.sendInput(term.pid, bytes('stty size\n'))
    await out.until((s) => text(s).includes('44 100'))
    await sbx.pty.sendInput(term.pid, bytes('exit 5\n'))
    await assert.rejects(term.wait(), (e) => e.exitCode === 5)
  })
})

test('pty: reconnect and kill', async () => {
  await withSandbox({}, async (sbx) => {
    const term = await sbx.pty.create({ cols: 80, rows: 24, onData: () => {} })
    await term.disconnect()
    const out = collector()
    const again = await sbx.pty.connect(term.pid, { onData: out.add })
    await sbx.pty.sendInput(term.pid, bytes('echo still-$((40 + 2))\n'))
    await out.until((s) => text(s).includes('still-42'))
    assert.equal(await sbx.pty.kill(term.pid), true)
    await assert.rejects(again.wait(), sdk.CommandExitError)
    assert.equal(await sbx.pty.kill(term.pid), false)
  })
})
