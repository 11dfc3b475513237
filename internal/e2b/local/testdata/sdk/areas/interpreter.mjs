import assert from 'node:assert/strict'
import { test } from 'node:test'
import { name, sdk, withSandbox } from '../help.mjs'

// Without a limit the SDK sets no timer; one that it sets outlives the error and
// keeps node from its end for a minute.
const now = { requestTimeoutMs: 0 }

if (name === '@e2b/code-interpreter') {
  test('interpreter: a sandbox without a kernel', async () => {
    await withSandbox({}, async (sbx) => {
      assert.equal((await sbx.getInfo()).templateId, 'code-interpreter-v1')
      await assert.rejects(sbx.runCode('1 + 1', now), sdk.TimeoutError)
      await assert.rejects(sbx.createCodeContext(now), sdk.TimeoutError)
      await assert.rejects(sbx.runCode('1', { language: 'python', context: { id: 'x' } }), sdk.InvalidArgumentError)
      assert.equal((await sbx.commands.run('echo still here')).stdout, 'still here\n')
    })
  })
}
