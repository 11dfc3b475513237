import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, Sandbox, sdk } from '../help.mjs'

const { Secret, Template, Volume } = sdk

test('template: which there are', async () => {
  assert.equal(await Template.exists('any-name'), true, 'the server takes every name')
  assert.equal(await Template.aliasExists('any-name:v1'), true)
  assert.equal(await Template.exists('local/no-such-snapshot'), false)
})

test('template: not built over the API', async () => {
  const made = Template().fromBaseImage().setEnvs({ A: 'b' }).runCmd('true').setStartCmd('sleep 1', 'true')
  assert.match(Template.toDockerfile(Template().fromImage('debian').runCmd('true')), /RUN true/)
  assert.equal(JSON.parse(await Template.toJSON(made)).startCmd, 'sleep 1')
  const why = /builds them at its start, from --templates DIR/
  await assert.rejects(Template.build(made, 'mine', { onBuildLogs: () => {} }), why)
  await assert.rejects(Template.buildInBackground(made, 'mine'), why)
  await assert.rejects(Template.getBuildStatus({ templateId: 'mine', buildId: 'b' }), /from --templates DIR/)
  for (const ask of [() => Template.getTags('mine'), () => Template.assignTags('mine:v1', 'a'), () => Template.removeTags('mine', ['a'])]) {
    await assert.rejects(ask, (e) => e instanceof sdk.TemplateError && /no tags/.test(e.message))
  }
})

test('volume: none', async () => {
  assert.deepEqual(await Volume.list(), [])
  await assert.rejects(Volume.create('v'), (e) => e instanceof sdk.VolumeError && /has no volumes/.test(e.message))
  await assert.rejects(Volume.getInfo('v'), sdk.VolumeNotFoundError)
  await assert.rejects(Volume.connect('v'), sdk.VolumeNotFoundError)
  assert.equal(await Volume.destroy('v'), false)
  await assert.rejects(Sandbox.create({ volumeMounts: { '/mnt/v': 'v' } }), /volume mounts are not enabled on this server/)
})

test('secret: none', async () => {
  assert.deepEqual(await all(Secret.list()), [])
  await assert.rejects(Secret.create('s', 'v'), (e) => e instanceof sdk.SecretError && /has no secrets/.test(e.message))
  await assert.rejects(Secret.update('s', 'v'), sdk.SecretNotFoundError)
  await assert.rejects(Secret.getInfo('s'), sdk.SecretNotFoundError)
  assert.equal(await Secret.exists('s'), false)
  assert.equal(await Secret.destroy('s'), false)
  const rules = { 'api.test': [{ transform: { headers: { Authorization: `Bearer ${Secret.fill('s')}` } } }] }
  await assert.rejects(Sandbox.create({ network: { rules } }), /header Authorization: this server has no secrets/)
  const tokens = { aws: Secret.iamToken({ audience: 'sts.amazonaws.com', tokenType: 'JWT-SVID' }) }
  await assert.rejects(Sandbox.create({ iam: { tokens } }), /workload identity \(iam\) is not enabled/)
})
