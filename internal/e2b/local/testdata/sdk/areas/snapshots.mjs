import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, Sandbox, sdk, withSandbox } from '../help.mjs'

test('snapshots: taken, used, listed, removed', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.write('f', 'then')
    const snap = await sbx.createSnapshot()
    await sbx.files.write('f', 'now')
    assert.equal(await sbx.isRunning(), true)
    const named = await Sandbox.createSnapshot(sbx.sandboxId, { name: 'named' })
    assert.ok(named.names.length > 0)

    const own = (await all(sbx.listSnapshots({ limit: 1 }))).map((s) => s.snapshotId)
    assert.deepEqual(own, [named.snapshotId, snap.snapshotId])
    assert.equal((await all(Sandbox.listSnapshots({ name: 'named' }))).length, 1)
    assert.equal((await all(Sandbox.listSnapshots({ sandboxId: 'inone' }))).length, 0)

    for (const [from, content] of [[snap.snapshotId, 'then'], [named.snapshotId, 'now'], ['named', 'now']]) {
      const copy = await Sandbox.create(from, { timeoutMs: 60_000 })
      assert.equal(await copy.files.read('f'), content)
      await copy.kill()
    }
    for (const s of [snap, named]) {
      assert.equal(await Sandbox.deleteSnapshot(s.snapshotId), true)
      assert.equal(await Sandbox.deleteSnapshot(s.snapshotId), false)
      await assert.rejects(Sandbox.create(s.snapshotId), sdk.SandboxError)
    }
  })
  await assert.rejects(Sandbox.createSnapshot('inosuchsandbox'), sdk.SandboxNotFoundError)
})

test('fork: copies that go their own way', async () => {
  await withSandbox({ metadata: { origin: 'yes' } }, async (sbx) => {
    await sbx.files.write('f', 'shared')
    const forks = await sbx.fork({ count: 2, timeoutMs: 60_000 })
    assert.equal(forks.length, 2)
    for (const f of forks) {
      assert.ok(f instanceof Sandbox, String(f))
      assert.notEqual(f.sandboxId, sbx.sandboxId)
      assert.equal(await f.files.read('f'), 'shared')
      await f.files.write('f', f.sandboxId)
      assert.equal((await f.commands.run('cat f')).stdout, f.sandboxId)
      assert.equal((await f.getInfo()).metadata.origin, 'yes')
      await f.kill()
    }
    assert.equal(await sbx.files.read('f'), 'shared')
    await sbx.pause()
    await assert.rejects(sbx.fork(), sdk.SandboxError)
  })
  await assert.rejects(Sandbox.fork('inosuchsandbox'), sdk.SandboxNotFoundError)
})
