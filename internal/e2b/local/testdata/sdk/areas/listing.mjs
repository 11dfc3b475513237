import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, Sandbox } from '../help.mjs'

test('list: pages, order, states, metadata, since when', async () => {
  const mark = `m ${Date.now()}&=%ä`
  const boxes = []
  for (let i = 0; i < 5; i++) boxes.push(await Sandbox.create({ metadata: { mark, n: String(i) }, timeoutMs: 120_000 }))
  const ids = boxes.map((b) => b.sandboxId)
  const list = async (query, opts = {}) => (await all(Sandbox.list({ query: { metadata: { mark }, ...query }, ...opts }))).map((b) => b.sandboxId)
  try {
    assert.deepEqual(await list({}, { limit: 2 }), ids.toReversed())
    assert.deepEqual(await list({}, { limit: 2, order: 'asc' }), ids)
    const pages = Sandbox.list({ limit: 2, query: { metadata: { mark } } })
    assert.equal((await pages.nextItems()).length, 2)
    assert.equal(pages.hasNext, true)
    const rest = await all(Sandbox.list({ limit: 2, nextToken: pages.nextToken, query: { metadata: { mark } } }))
    assert.deepEqual(rest.map((b) => b.sandboxId), ids.toReversed().slice(2), 'a token serves another paginator')
    assert.deepEqual(await list({ metadata: { mark, n: '1' } }), [ids[1]])
    assert.deepEqual(await list({ metadata: { mark, n: '9' } }), [])
    const info = await boxes[3].getInfo()
    assert.deepEqual(await list({ startedAfter: info.startedAt }, { order: 'asc' }), ids.slice(3))
    assert.equal((await list({ template: info.templateId })).length, 5)
    assert.deepEqual(await list({ template: 'no-such-template' }), [])
    await boxes[1].pause()
    assert.deepEqual(await list({ state: ['paused'] }), [ids[1]])
    assert.equal((await list({ state: ['running'] })).length, 4)
    assert.equal((await list({ state: ['running', 'paused'] })).length, 5)
    const [first] = await all(Sandbox.list({ query: { metadata: { mark, n: '0' } } }))
    assert.deepEqual([first.state, first.metadata.n], ['running', '0'])
    assert.ok(first.startedAt instanceof Date && first.endAt > first.startedAt)
  } finally {
    await Promise.all(boxes.map((b) => b.kill()))
  }
  assert.deepEqual(await list({}), [])
})

test('list: a page that does not exist', async () => {
  await assert.rejects(Sandbox.list({ nextToken: 'nonsense' }).nextItems(), /Invalid next token/)
})
