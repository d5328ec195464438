import assert from 'node:assert/strict'
import { test } from 'node:test'

import { idleRecord, idleStep } from '../../../fastapi_oidc/web/browser/oidc-context.js'

const AT = { login: 'alice|2000', now: 100_000, timeout: 60_000 }
const RECORD = { login: 'alice|2000', deadline: 130_000, endedAt: 0 }
const stored = (change) => JSON.stringify({ ...RECORD, ...change })

test('a deadline set by another tab holds here', () => {
  assert.deepEqual(idleRecord(stored({}), AT), RECORD)
})

test('a deadline that has passed still holds: loading a page is no sign of life', () => {
  assert.equal(idleRecord(stored({ deadline: 90_000 }), AT).deadline, 90_000)
})

test('a new login begins with a whole timeout', () => {
  const fresh = { login: 'alice|2000', deadline: 160_000, endedAt: 0 }
  assert.deepEqual(idleRecord(stored({ login: 'alice|1000', deadline: 90_000, endedAt: 1 }), AT), fresh)
  for (const nothing of [null, '', 'null', '[]', '{broken', stored({ deadline: null })]) {
    assert.deepEqual(idleRecord(nothing, AT), fresh)
  }
})

test('a clock that was set back cannot keep a session open', () => {
  assert.equal(idleRecord(stored({ deadline: 999_000 }), AT).deadline, 160_000)
})

test('the session is active until the deadline, then one tab ends it', () => {
  assert.equal(idleStep(RECORD, 129_999), 'active')
  assert.equal(idleStep(RECORD, 130_000), 'end')
})

test('tabs follow the one that is ending the session, and take over when it does not', () => {
  const ending = { ...RECORD, endedAt: 131_000 }
  assert.equal(idleStep(ending, 131_000), 'follow')
  assert.equal(idleStep(ending, 140_999), 'follow')
  assert.equal(idleStep(ending, 141_000), 'end')
})
