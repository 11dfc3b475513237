import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sdk, withSandbox } from '../help.mjs'

// A repository behind a password, made anew for each test.
const login = { username: 'bot', password: 'pass word/1' }
async function remote() {
  const res = await fetch(process.env.GIT_URL, { method: 'PUT' })
  assert.equal(res.status, 201)
  return res.text()
}

test('git: a work tree', async () => {
  await withSandbox({}, async (sbx) => {
    const { git } = sbx
    await git.init('r', { initialBranch: 'main' })
    await git.configureUser('A B', 'a@b.example', { scope: 'local', path: 'r' })
    assert.equal(await git.getConfig('user.name', { scope: 'local', path: 'r' }), 'A B')
    assert.equal(await git.getConfig('no.such', { scope: 'local', path: 'r' }), undefined)
    await git.setConfig('core.abbrev', '12', { scope: 'local', path: 'r' })
    await sbx.files.write('r/file.txt', 'one')
    let status = await git.status('r')
    assert.deepEqual(status.fileStatus.map((f) => [f.name, f.status]), [['file.txt', 'untracked']])
    await git.add('r')
    await git.commit('r', "it's the first", { authorName: 'C', authorEmail: 'c@d.example' })
    const log = await sbx.commands.run('git log --format="%an %ae %s"', { cwd: 'r' })
    assert.equal(log.stdout, "C c@d.example it's the first\n")
    status = await git.status('r')
    assert.equal(status.currentBranch, 'main')
    assert.equal(status.isClean, true)
    await git.createBranch('r', 'work')
    assert.equal((await git.branches('r')).currentBranch, 'work')
    await sbx.files.write('r/file.txt', 'two')
    await git.add('r', { files: ['file.txt'] })
    assert.equal((await git.status('r')).hasStaged, true)
    await git.reset('r', { mode: 'mixed' })
    assert.equal((await git.status('r')).hasStaged, false)
    await git.restore('r', { paths: ['file.txt'] })
    assert.equal(await sbx.files.read('r/file.txt'), 'one')
    await git.commit('r', 'nothing', { allowEmpty: true })
    await git.checkoutBranch('r', 'main')
    assert.deepEqual((await git.branches('r')).branches.sort(), ['main', 'work'])
    await assert.rejects(git.deleteBranch('r', 'work'), sdk.CommandExitError)
    await git.deleteBranch('r', 'work', { force: true })
    assert.deepEqual((await git.branches('r')).branches, ['main'])
  })
})

test('git: clone, push, pull with a password', async () => {
  const url = await remote()
  await withSandbox({}, async (sbx) => {
    const { git } = sbx
    await git.clone(url, { path: 'one', ...login })
    assert.equal(await git.remoteGet('one', 'origin'), url, 'the password does not stay')
    await sbx.files.write('one/f', 'pushed')
    await git.add('one')
    await git.commit('one', 'first', { authorName: 'A', authorEmail: 'a@b.example' })
    await git.push('one', { remote: 'origin', branch: 'main', ...login })
    assert.ok(!(await sbx.files.read('one/.git/config')).includes('pass'))
    await git.clone(url, { path: 'two', branch: 'main', depth: 1, ...login })
    assert.equal(await sbx.files.read('two/f'), 'pushed')
    await sbx.files.write('one/g', 'more')
    await git.add('one')
    await git.commit('one', 'second', { authorName: 'A', authorEmail: 'a@b.example' })
    await git.push('one', { remote: 'origin', branch: 'main', ...login })
    await git.pull('two', { remote: 'origin', branch: 'main', ...login })
    assert.equal(await sbx.files.read('two/g'), 'more')
    const status = await git.status('one')
    assert.deepEqual([status.ahead, status.behind], [0, 0])
  })
})

test('git: errors by class', async () => {
  const url = await remote()
  await withSandbox({}, async (sbx) => {
    const { git } = sbx
    await assert.rejects(git.clone(url, { path: 'x' }), sdk.GitAuthError)
    await assert.rejects(git.clone(url, { path: 'x', username: 'bot', password: 'wrong' }), sdk.GitAuthError)
    await assert.rejects(git.clone(url, { path: 'x', username: 'bot' }), sdk.GitAuthError)
    await git.init('r', { initialBranch: 'main' })
    await git.commit('r', 'first', { allowEmpty: true, authorName: 'A', authorEmail: 'a@b.example' })
    await git.remoteAdd('r', 'origin', url)
    await assert.rejects(git.push('r', { setUpstream: false }), sdk.GitUpstreamError)
    await assert.rejects(git.pull('r'), sdk.GitUpstreamError)
    assert.equal(await git.remoteGet('r', 'none'), undefined)
    await git.dangerouslyAuthenticate({ ...login, host: new URL(url).host, protocol: 'http' })
    await git.push('r', { remote: 'origin', branch: 'main' })
  })
})
