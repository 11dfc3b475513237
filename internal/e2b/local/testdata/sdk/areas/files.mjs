import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collector, home, sdk, withSandbox } from '../help.mjs'

test('files: write and read in every form', async () => {
  await withSandbox({}, async (sbx) => {
    const info = await sbx.files.write('a/b.txt', 'hello')
    assert.deepEqual([info.path, info.name, info.type], ['/home/user/a/b.txt', 'b.txt', 'file'])
    assert.equal(await sbx.files.read('a/b.txt'), 'hello')
    assert.equal(await sbx.files.read('a/b.txt', { format: 'text' }), 'hello')
    assert.deepEqual([...(await sbx.files.read('a/b.txt', { format: 'bytes' }))], [...Buffer.from('hello')])
    assert.equal(await (await sbx.files.read('a/b.txt', { format: 'blob' })).text(), 'hello')
    assert.equal(await new Response(await sbx.files.read('a/b.txt', { format: 'stream' })).text(), 'hello')
    await sbx.files.write('empty', '')
    assert.equal(await sbx.files.read('empty'), '')
    assert.equal((await sbx.files.read('empty', { format: 'bytes' })).length, 0)
    const raw = new Uint8Array(256).map((_, i) => i)
    await sbx.files.write('raw', raw.buffer)
    assert.deepEqual(await sbx.files.read('raw', { format: 'bytes' }), raw)
    await sbx.files.write('streamed', new Blob(['x'.repeat(3_000_000)]).stream())
    assert.equal((await sbx.files.read('streamed')).length, 3_000_000)
    await sbx.files.write('streamed', 'short')
    assert.equal(await sbx.files.read('streamed'), 'short', 'what was longer is cut')
    await sbx.files.write('zipped', 'z'.repeat(1000), { gzip: true })
    assert.equal(await sbx.files.read('zipped', { gzip: true }), 'z'.repeat(1000))
    await sbx.files.write('öffnen & +.txt', 'odd name')
    assert.equal(await sbx.files.read('öffnen & +.txt'), 'odd name')
    const out = await sbx.commands.run('cat a/b.txt; stat -c %U a/b.txt')
    if (home) assert.equal(out.stdout, 'hellouser\n')
  })
})

test('files: many at once', async () => {
  await withSandbox({}, async (sbx) => {
    const files = [
      { path: '/home/user/m/1', data: 'one' },
      { path: '/tmp/2', data: new Blob(['two']) },
      { path: '/home/user/m/deep/3', data: new TextEncoder().encode('three').buffer },
    ]
    for (const write of ['write', 'writeFiles']) {
      const done = await sbx.files[write](files)
      assert.deepEqual(done.map((f) => f.path), files.map((f) => f.path))
    }
    assert.equal(await sbx.files.read('/tmp/2'), 'two')
    assert.equal(await sbx.files.read('m/deep/3'), 'three')
    assert.deepEqual(await sbx.files.write([]), [])
    const streams = await sbx.files.write([
      { path: 's1', data: new Blob(['s1']).stream() },
      { path: 's2', data: 's2' },
    ], { useOctetStream: true })
    assert.equal(streams.length, 2)
    assert.equal(await sbx.files.read('s1'), 's1')
  })
})

test('files: directories, names, metadata', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.write('a/b.txt', 'hello')
    assert.equal(await sbx.files.exists('a/b.txt'), true)
    assert.equal(await sbx.files.exists('a/c.txt'), false)
    assert.equal(await sbx.files.makeDir('a/d'), true)
    assert.equal(await sbx.files.makeDir('a/d'), false)
    assert.equal(await sbx.files.makeDir('x/y/z'), true)
    const moved = await sbx.files.rename('a/b.txt', 'a/d/c.txt')
    assert.equal(moved.path, '/home/user/a/d/c.txt')
    assert.deepEqual((await sbx.files.list('a')).map((e) => [e.name, e.type]), [['d', 'dir']])
    const list = await sbx.files.list('a', { depth: 2 })
    assert.deepEqual(list.map((e) => [e.path, e.type]), [
      ['/home/user/a/d', 'dir'],
      ['/home/user/a/d/c.txt', 'file'],
    ])
    const stat = await sbx.files.getInfo('a/d/c.txt')
    assert.deepEqual([stat.size, stat.owner, stat.group, stat.permissions], [5, 'user', 'user', '-rw-r--r--'])
    assert.ok(Math.abs(stat.modifiedTime - Date.now()) < 60_000)
    await sbx.commands.run('ln -s d/c.txt a/link')
    const link = await sbx.files.getInfo('a/link')
    assert.equal(link.symlinkTarget, '/home/user/a/d/c.txt')
    await sbx.files.write('meta', 'm', { metadata: { kind: 'test' } })
    assert.deepEqual((await sbx.files.getInfo('meta')).metadata, { kind: 'test' })
    await sbx.files.write('meta', 'n')
    assert.ok(!(await sbx.files.getInfo('meta')).metadata?.kind, 'each write sets it anew')
    await sbx.files.remove('a')
    await sbx.files.remove('a')
    assert.equal(await sbx.files.exists('a'), false)
  })
})

test('files: users', async () => {
  await withSandbox({}, async (sbx) => {
    const info = await sbx.files.write('f', 'root was here', { user: 'root' })
    assert.equal(info.path, '/root/f', 'relative to the home of the user')
    assert.equal((await sbx.files.getInfo('/root/f', { user: 'root' })).size, 13)
    await assert.rejects(sbx.files.write('f', 'x', { user: 'stranger' }), sdk.AuthenticationError)
  })
})

test('files: errors', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.makeDir('m')
    await sbx.files.write('f', '')
    await assert.rejects(sbx.files.read('none'), sdk.FileNotFoundError)
    await assert.rejects(sbx.files.list('none'), sdk.FileNotFoundError)
    await assert.rejects(sbx.files.getInfo('none'), sdk.FileNotFoundError)
    await assert.rejects(sbx.files.rename('none', 'x'), sdk.FileNotFoundError)
    await assert.rejects(sbx.files.list('f'), sdk.InvalidArgumentError)
    await assert.rejects(sbx.files.read('m'), sdk.InvalidArgumentError)
    await assert.rejects(sbx.files.write('m', 'x'), sdk.InvalidArgumentError)
    await assert.rejects(sbx.files.makeDir('f'), sdk.InvalidArgumentError)
  })
})

test('watch: what changes', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.makeDir('w')
    const events = collector()
    const saw = (name, type) => events.until((s) => s.some((e) => e.name === name && (!type || e.type === type)))
    const handle = await sbx.files.watchDir('w', events.add, { recursive: true, includeEntry: true })
    await sbx.files.write('w/new.txt', 'x')
    await saw('new.txt', 'create')
    await saw('new.txt', 'write')
    assert.ok(events.seen.some((e) => e.entry?.path === '/home/user/w/new.txt'))
    await sbx.commands.run('chmod 600 w/new.txt')
    await saw('new.txt', 'chmod')
    await sbx.files.makeDir('w/deep')
    await saw('deep')
    await sbx.files.write('w/deep/er.txt', 'x')
    await saw('deep/er.txt')
    await sbx.files.rename('w/new.txt', 'w/old.txt')
    await saw('new.txt', 'rename')
    await sbx.files.remove('w/old.txt')
    await saw('old.txt', 'remove')
    await handle.stop()
  })
})

test('watch: one level, its end, what cannot be watched', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.makeDir('w/sub')
    const events = collector()
    const ends = collector()
    const handle = await sbx.files.watchDir('w', events.add, { onExit: (e) => ends.add(e) })
    await sbx.files.write('w/sub/unseen', 'x')
    await sbx.files.write('w/seen', 'x')
    await events.until((s) => s.some((e) => e.name === 'seen'))
    assert.ok(!events.seen.some((e) => e.name.includes('unseen')))
    await handle.stop()
    await ends.until((s) => s.length === 1)
    await assert.rejects(sbx.files.watchDir('none', () => {}), sdk.FileNotFoundError)
    await assert.rejects(sbx.files.watchDir('w/seen', () => {}), sdk.InvalidArgumentError)
    const over = collector()
    await sbx.files.watchDir('w', () => {}, { timeoutMs: 2000, onExit: (e) => over.add(e) })
    await over.until((s) => s.length === 1)
  })
})

test('signing: addresses that need no key', async () => {
  await withSandbox({}, async (sbx) => {
    const form = new FormData()
    form.append('file', new Blob(['signed']), 's.txt')
    const up = await fetch(await sbx.uploadUrl('s.txt', { useSignatureExpiration: 60 }), { method: 'POST', body: form })
    assert.equal(up.status, 200)
    const down = await sbx.downloadUrl('s.txt')
    assert.equal(await (await fetch(down)).text(), 'signed')
    assert.equal(await (await fetch(await sbx.downloadUrl('s.txt', { useSignatureExpiration: 60 }))).text(), 'signed')
    const named = await sbx.downloadUrl('/home/user/s.txt', { user: 'root' })
    assert.equal(await (await fetch(named)).text(), 'signed')
  })
})

test('signing: by hand', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.write('s.txt', 'signed')
    const made = { path: 's.txt', operation: 'read', user: undefined, expirationInSeconds: 60, envdAccessToken: sbx.envdAccessToken }
    const { signature, expiration } = await sdk.getSignature(made)
    const url = new URL('/files', process.env.E2B_SANDBOX_URL)
    url.search = new URLSearchParams({ path: 's.txt', signature, signature_expiration: expiration })
    assert.equal(await (await fetch(url)).text(), 'signed')
  })
})

test('signing: forged and expired', async () => {
  await withSandbox({}, async (sbx) => {
    await sbx.files.write('s.txt', 'secret')
    const down = await sbx.downloadUrl('s.txt', { useSignatureExpiration: 1 })
    const later = new URL(down)
    const end = Number(later.searchParams.get('signature_expiration'))
    later.searchParams.set('signature_expiration', String(end + 1000))
    const bare = new URL(down)
    bare.searchParams.delete('signature')
    const other = new URL(await sbx.downloadUrl('s.txt'))
    other.searchParams.set('path', '/etc/passwd')
    for (const bad of [later, bare, other]) assert.equal((await fetch(bad)).status, 401, String(bad))
    const write = await fetch(await sbx.downloadUrl('s.txt'), { method: 'POST', body: new FormData() })
    assert.equal(write.status, 401, 'a way to read is none to write')
    while (Date.now() / 1000 <= end + 1) await new Promise((resolve) => setTimeout(resolve, 50))
    const expired = await fetch(down)
    assert.equal(expired.status, 401)
    assert.match(await expired.text(), /expired/)
  })
})
