import assert from 'node:assert/strict'
import { test } from 'node:test'
import { home, Sandbox, sdk } from '../help.mjs'

const mcp = { browserbase: { apiKey: "it's a key" } }

test('mcp: a template without a gateway', async () => {
  await assert.rejects(Sandbox.create('base', { mcp, timeoutMs: 60_000 }), (e) =>
    e instanceof sdk.SandboxError && /Failed to start MCP gateway: .*mcp-gateway: command not found/.test(e.message))
})

// The server has a template of that name, with a gateway that writes down what it
// was told. Only with a root of its own a sandbox has an /etc to write to.
test('mcp: a template that has one', { skip: !home && 'no root of its own' }, async () => {
  const sbx = await Sandbox.create({ mcp, timeoutMs: 60_000 })
  try {
    assert.equal(sbx.getMcpUrl(), `https://${sbx.getHost(50005)}/mcp`)
    const token = await sbx.getMcpToken()
    assert.match(token, /^[0-9a-f-]{36}$/)
    const again = await Sandbox.connect(sbx.sandboxId)
    assert.equal(await again.getMcpToken(), token, 'it is in the sandbox')
    assert.deepEqual(JSON.parse(await sbx.files.read('/etc/mcp-gateway/config', { user: 'root' })), mcp)
  } finally {
    await sbx.kill()
  }
})
