import assert from 'node:assert/strict'
import { test } from 'node:test'

import {
  clockSkew, due, expiryOf, loginOf, nap, parseSession, redirectTarget, revalidationPause, sameSession, statusAfter,
} from '../../../fastapi_oidc/web/browser/oidc-context.js'

const SIGNED_IN = { is_authenticated: true, sub: 'alice', identity: { name: 'Alice' }, expires_at: 2000, csrf_token: 'a' }
const PLAN = { status: 'authenticated', expiresAt: 9000, idleAt: 8000, revalidateAt: 7000, visible: true }

test('a public session is an object that says whether someone is signed in', () => {
  assert.deepEqual(parseSession(SIGNED_IN), SIGNED_IN)
  assert.ok(Object.isFrozen(parseSession({ is_authenticated: false })))
  for (const answer of [null, 'yes', [], {}, { is_authenticated: 'true' }]) {
    assert.throws(() => parseSession(answer), TypeError)
  }
})

test('a login is named by its user and its end', () => {
  assert.equal(loginOf(SIGNED_IN), 'alice|2000')
  assert.notEqual(loginOf({ ...SIGNED_IN, expires_at: 2001 }), loginOf(SIGNED_IN))
  assert.equal(loginOf({ is_authenticated: false }), null)
  assert.equal(loginOf(null), null)
})

test('a new CSRF token or idle end alone is no change', () => {
  assert.ok(sameSession(SIGNED_IN, { ...SIGNED_IN, csrf_token: 'b', idle_expires_at: 900 }))
  assert.ok(!sameSession(SIGNED_IN, { ...SIGNED_IN, identity: { name: 'Alicia' } }))
  assert.ok(!sameSession(SIGNED_IN, null))
})

test('the end is moved by the difference of the clocks', () => {
  const skew = clockSkew('Thu, 01 Jan 1970 00:00:10 GMT', 70_000)
  assert.equal(skew, 60_000)
  assert.equal(expiryOf(SIGNED_IN, skew), 2_060_000)
  assert.equal(expiryOf({ ...SIGNED_IN, idle_expires_at: 1000 }, skew, 'idle_expires_at'), 1_060_000)
})

test('a server that tells no time or no end sets no deadline', () => {
  assert.equal(clockSkew(null, 70_000), 0)
  assert.equal(clockSkew('soon', 70_000), 0)
  assert.equal(clockSkew('Thu, 01 Jan 1970 00:00:10 GMT', 11_999), 0)
  assert.equal(expiryOf({ is_authenticated: true }, 0), Infinity)
  assert.equal(expiryOf(null, 0), Infinity)
  assert.equal(expiryOf(SIGNED_IN, 0, 'idle_expires_at'), Infinity)
})

test('a session that is gone was revoked, unless its end was known', () => {
  const gone = { is_authenticated: false }
  const table = { loading: 'anonymous', anonymous: 'anonymous', authenticated: 'revoked', expired: 'expired', idle: 'idle', revoked: 'revoked' }
  for (const [before, after] of Object.entries(table)) {
    assert.equal(statusAfter(before, gone, false), after)
    assert.equal(statusAfter(before, SIGNED_IN, false), 'authenticated')
  }
})

test('a session that the server says has expired was not revoked', () => {
  const gone = { is_authenticated: false, ended: 'expired' }
  assert.equal(statusAfter('authenticated', gone, false), 'expired')
  assert.equal(statusAfter('loading', gone, false), 'anonymous')
  assert.equal(statusAfter('authenticated', { ...gone, ended: 'revoked' }, false), 'revoked')
})

test('a session that the server still holds after its end is over', () => {
  assert.equal(statusAfter('authenticated', SIGNED_IN, true), 'expired')
  assert.equal(statusAfter('expired', SIGNED_IN, true), 'expired')
})

test('the most final thing is due first', () => {
  assert.equal(due(PLAN, 6999), 'wait')
  assert.equal(due(PLAN, 7000), 'revalidate')
  assert.equal(due(PLAN, 8000), 'idle')
  assert.equal(due(PLAN, 9000), 'expire')
})

test('a hidden page asks for nothing, and still ends on time', () => {
  assert.equal(due({ ...PLAN, visible: false }, 7999), 'wait')
  assert.equal(due({ ...PLAN, visible: false }, 9000), 'expire')
})

test('only a session ends', () => {
  for (const status of ['loading', 'anonymous', 'expired', 'idle', 'revoked']) {
    assert.equal(due({ ...PLAN, status, revalidateAt: Infinity }, 10_000), 'wait')
  }
})

test('a nap lasts until the next thing, five seconds at the most', () => {
  assert.equal(nap(PLAN, 6000), 1000)
  assert.equal(nap({ ...PLAN, visible: false }, 6000), 2000)
  assert.equal(nap({ ...PLAN, expiresAt: 1e9, idleAt: 1e9, revalidateAt: 1e9 }, 6000), 5000)
  assert.equal(nap(PLAN, 9500), 0)
})

test('revalidations drift apart by a fifth of the interval', () => {
  assert.equal(revalidationPause({ interval: 60_000, failures: 0, random: 0 }), 54_000)
  assert.equal(Math.round(revalidationPause({ interval: 60_000, failures: 0, random: 1 })), 66_000)
})

test('after failures the pause doubles, up to five minutes, also when revalidation is off', () => {
  const pause = (failures) => revalidationPause({ interval: 0, failures, random: 0.5 })
  assert.deepEqual([0, 1, 2, 3, 20].map(pause), [Infinity, 5000, 10_000, 20_000, 300_000])
})

test('redirects stay on this origin', () => {
  const page = 'https://app.test/a?b'
  for (const word of ['login', 'logout', 'reload', null]) assert.equal(redirectTarget(word, page), word)
  assert.equal(redirectTarget('/bye', page), 'https://app.test/bye')
  for (const elsewhere of ['https://evil.test/', '//evil.test/', '/\\evil.test', 'javascript:alert(1)', 'https://']) {
    assert.equal(redirectTarget(elsewhere, page), null)
  }
})
