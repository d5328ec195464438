import assert from 'node:assert/strict'
import { test } from 'node:test'

import {
  afterCheck, afterMessage, checkAllowed, checkRecord, parseMonitorConfig, silentAnswer, verdictOf,
} from '../../../fastapi_oidc/web/browser/oidc-context.js'

const PAGE = 'https://app.test'
const OP = 'https://op.test'
const HEARD = { checks: 0, notBefore: 0 }
const CONFIG = {
  supported: true, client_id: 'app', check_session_iframe: `${OP}/check`, poll_interval: 3, redirect_origin: PAGE,
}

test('the configuration of this origin is accepted', () => {
  assert.deepEqual(parseMonitorConfig(CONFIG, PAGE), CONFIG)
})

test('without an iframe, or on another origin than the redirect URI, nothing is monitored', () => {
  const changes = [
    { supported: false }, { client_id: undefined }, { check_session_iframe: null }, { redirect_origin: 'https://www.app.test' },
  ]
  for (const change of changes) assert.equal(parseMonitorConfig({ ...CONFIG, ...change }, PAGE), null)
  assert.equal(parseMonitorConfig(null, PAGE), null)
})

test('an unusable poll interval becomes five seconds', () => {
  for (const poll_interval of [undefined, 0, -1, 'often', 0.01]) {
    assert.equal(parseMonitorConfig({ ...CONFIG, poll_interval }, PAGE).poll_interval, 5)
  }
})

test('each answer of the OP has one meaning', () => {
  const meanings = { changed: 'recheck', unchanged: 'believe', error: 'stop', 'Changed': 'ignore', '': 'ignore' }
  for (const [data, meaning] of Object.entries(meanings)) assert.equal(afterMessage({ origin: OP, data }, OP), meaning)
  assert.equal(afterMessage({ origin: OP, data: { changed: true } }, OP), 'ignore')
})

test('an answer from any other origin is ignored', () => {
  for (const origin of [PAGE, 'http://op.test', 'https://op.test:8443', 'null']) {
    assert.equal(afterMessage({ origin, data: 'changed' }, OP), 'ignore')
  }
})

test('a repeated `changed` is checked at once, after 30 s, after 120 s, and then never', () => {
  const checked = (record, now) => afterCheck(record, 'keep', now)
  let record = HEARD
  assert.equal(checkAllowed(record, 0), 'now')
  record = checked(record, 0)
  assert.equal(checkAllowed(record, 29_999), 'later')
  assert.equal(checkAllowed(record, 30_000), 'now')
  record = checked(record, 30_000)
  assert.equal(checkAllowed(record, 149_999), 'later')
  assert.equal(checkAllowed(record, 150_000), 'now')
  record = checked(record, 150_000)
  assert.equal(checkAllowed(record, 1e12), 'never')
})

test('after a check that ended a session, `changed` is not believed before `unchanged` was heard', () => {
  assert.equal(checkAllowed(afterCheck(HEARD, 'end', 0), 1e12), 'never')
})

test('an iframe that never said `unchanged` is not believed', () => {
  assert.equal(checkAllowed(checkRecord(null), 1e12), 'never')
})

test('a damaged record is one of an iframe that was never heard', () => {
  for (const text of ['', 'null', '[1]', '{"checks":"many"}']) {
    assert.deepEqual(checkRecord(text), checkRecord(null))
  }
})

test('the same user keeps the session, another user or a refusal ends it', () => {
  assert.equal(verdictOf({ outcome: 'same_user', code: '' }), 'keep')
  assert.equal(verdictOf({ outcome: 'other_user', code: 'authorization.other_user' }), 'end')
  assert.equal(verdictOf({ outcome: 'error', code: 'authorization.refused' }), 'end')
})

test('a failure that says nothing about the user is tried again', () => {
  const codes = ['timeout', 'provider.unreachable', 'provider.unavailable', 'provider.timeout', 'provider.status',
    'authorization.transaction_missing', 'session.store_unavailable', 'session.refresh_postponed']
  for (const code of codes) assert.equal(verdictOf({ outcome: 'error', code }), 'retry')
  assert.equal(verdictOf({ outcome: 'other_user', code: 'timeout' }), 'end')
})

test('what is not known ends the session', () => {
  assert.equal(verdictOf({ outcome: 'fine', code: '' }), 'end')
  assert.equal(verdictOf({ outcome: 'error', code: 'new.code' }), 'end')
})

test('only the page that ends a silent login is heard', () => {
  assert.deepEqual(silentAnswer({ type: 'oidc-silent', outcome: 'error', code: 'x' }), { outcome: 'error', code: 'x' })
  assert.deepEqual(silentAnswer({ type: 'oidc-silent', outcome: 'same_user' }), { outcome: 'same_user', code: '' })
  for (const other of [null, 'same_user', {}, { type: 'other', outcome: 'same_user' }]) assert.equal(silentAnswer(other), null)
})
