// @ts-check
/**
 * `<oidc-context>`: the session in the browser. docs/browser.md is the manual.
 *
 * The first half decides: pure functions without DOM, clock or randomness. The second half, the element, does.
 * Times are milliseconds since the epoch, except in attributes and in the server's responses: those are in seconds.
 */

/** @typedef {'loading' | 'anonymous' | 'authenticated' | 'expired' | 'idle' | 'revoked'} Status */
/** @typedef {'off' | 'watching' | 'checking' | 'stopped'} Monitoring */
/**
 * The public session; the application may add members.
 * @typedef {{is_authenticated: boolean, sub?: string | null, identity?: unknown, expires_at?: number | null,
 *   idle_expires_at?: number, session_state?: string | null, csrf_token?: string | null, ended?: string,
 *   [member: string]: unknown}} PublicSession
 */
/**
 * @typedef {{supported: true, client_id: string, check_session_iframe: string, poll_interval: number,
 *   redirect_origin: string}} MonitorConfig
 */
/** One login's idle deadline, shared by all tabs. @typedef {{login: string, deadline: number, endedAt: number}} IdleRecord */
/** Silent logins since the OP iframe last said `unchanged`; the limit before it ever has. @typedef {{checks: number, notBefore: number}} CheckRecord */
/** @typedef {{outcome: string, code: string}} SilentAnswer */
/** @typedef {{status: Status, expiresAt: number, idleAt: number, revalidateAt: number, visible: boolean}} Plan */

// ---------------------------------------------------------------- decisions

const SECOND = 1000
/** How late timers can be: after a sleep of the device they continue where they were. */
const LONGEST_NAP = 5 * SECOND
const FIRST_RETRY = 5 * SECOND
const LONGEST_RETRY = 300 * SECOND
const CLOCK_ROUNDING = 2 * SECOND
/** How long the other tabs wait for the tab that ends an idle session at the server. */
const IDLE_TAKEOVER = 10 * SECOND
/** After each silent login that the OP iframe does not confirm; after one more it is not believed. */
const CHECK_PAUSES = [30 * SECOND, 120 * SECOND]
const CHECK_LIMIT = CHECK_PAUSES.length + 1

/** Failures that say nothing about the user: the check is repeated later, the session continues. */
const INCONCLUSIVE = /^(timeout|authorization\.transaction_missing|provider\..*|session\.(refresh_postponed|.*_unavailable))$/

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

/** @param {string | null} text @returns {Record<string, unknown>} an empty object for anything but a JSON object */
function parseObject(text) {
  try {
    const value = JSON.parse(text ?? '')
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

/**
 * The server's response as a public session; throws TypeError when it is not one.
 * @param {unknown} answer
 * @returns {Readonly<PublicSession>}
 */
export function parseSession(answer) {
  if (!isObject(answer) || typeof answer.is_authenticated !== 'boolean') throw new TypeError('not a public session')
  return Object.freeze(/** @type {PublicSession} */ (answer))
}

/**
 * The configuration, or null when this page cannot monitor: `session_state` is computed over the origin of the redirect
 * URI (Session Management 1.0, 3.2).
 * @param {unknown} answer
 * @param {string} pageOrigin
 * @returns {MonitorConfig | null}
 */
export function parseMonitorConfig(answer, pageOrigin) {
  if (!isObject(answer) || answer.supported !== true || answer.redirect_origin !== pageOrigin) return null
  if (typeof answer.client_id !== 'string' || !URL.canParse(String(answer.check_session_iframe))) return null
  const seconds = Number(answer.poll_interval)
  const config = { ...answer, poll_interval: seconds >= 1 ? seconds : 5 }
  return /** @type {MonitorConfig} */ (config)
}

/**
 * Names one login; the end is fixed at login, so two logins of one user differ.
 * @param {PublicSession | null} session
 */
export const loginOf = (session) => (session?.is_authenticated ? `${session.sub}|${session.expires_at}` : null)

/**
 * What all tabs should agree on; a tab that receives a different value checks with the server.
 * @param {PublicSession | null} session
 */
export const sharedBy = (session) => (session?.is_authenticated ? `${loginOf(session)}|${session.session_state}` : null)

/** The members that are new in every response. */
const FLEETING = { csrf_token: 0, idle_expires_at: 0 }

/**
 * Whether both are the same for a page.
 * @param {PublicSession | null} one
 * @param {PublicSession | null} other
 */
export function sameSession(one, other) {
  return JSON.stringify({ ...one, ...FLEETING }) === JSON.stringify({ ...other, ...FLEETING })
}

/**
 * How far this clock is ahead of the server's; 0 without the header, or within its rounding.
 * @param {string | null} dateHeader
 * @param {number} now
 */
export function clockSkew(dateHeader, now) {
  const skew = now - Date.parse(dateHeader ?? '')
  return Math.abs(skew) > CLOCK_ROUNDING ? skew : 0
}

/**
 * When the session ends by this clock; Infinity when the server does not say.
 * @param {PublicSession | null} session
 * @param {number} skew
 * @param {'expires_at' | 'idle_expires_at'} end the absolute one, or that without a request
 */
export function expiryOf(session, skew, end = 'expires_at') {
  const seconds = session?.[end]
  return typeof seconds === 'number' ? seconds * SECOND + skew : Infinity
}

/**
 * The status after a response: a missing session was revoked, unless it expired. The end from the server counts, even
 * while the server still has the session.
 * @param {Status} status
 * @param {PublicSession} session
 * @param {boolean} isOver
 * @returns {Status}
 */
export function statusAfter(status, session, isOver) {
  if (session.is_authenticated) return isOver ? 'expired' : 'authenticated'
  if (status === 'authenticated') return session.ended === 'expired' ? 'expired' : 'revoked'
  return status === 'loading' ? 'anonymous' : status
}

/**
 * What is due, the most final first: a waking tab ends an expired session before it checks it.
 * @param {Plan} plan
 * @param {number} now
 * @returns {'expire' | 'idle' | 'revalidate' | 'wait'}
 */
export function due(plan, now) {
  if (plan.status === 'authenticated' && now >= plan.expiresAt) return 'expire'
  if (plan.status === 'authenticated' && now >= plan.idleAt) return 'idle'
  return plan.visible && now >= plan.revalidateAt ? 'revalidate' : 'wait'
}

/**
 * How long to sleep when nothing is due.
 * @param {Plan} plan
 * @param {number} now
 */
export function nap(plan, now) {
  const revalidateAt = plan.visible ? plan.revalidateAt : Infinity
  return Math.max(0, Math.min(LONGEST_NAP, plan.expiresAt - now, plan.idleAt - now, revalidateAt - now))
}

/**
 * The pause before the next revalidation; randomized, so that clients that started together do not stay together.
 * @param {{interval: number, failures: number, random: number}} pace `interval` 0: only after a failure
 */
export function revalidationPause({ interval, failures, random }) {
  if (failures === 0 && interval === 0) return Infinity
  const pause = failures === 0 ? interval : Math.min(LONGEST_RETRY, FIRST_RETRY * 2 ** (failures - 1))
  return pause * (0.9 + 0.2 * random)
}

/**
 * The stored deadline of this login, or a new one for a new login. Never further away than `timeout`:
 * a clock that was set back must not keep a session open.
 * @param {string | null} stored
 * @param {{login: string, now: number, timeout: number}} at
 * @returns {IdleRecord}
 */
export function idleRecord(stored, { login, now, timeout }) {
  const record = parseObject(stored)
  const known = record.login === login && Number.isFinite(record.deadline)
  if (!known) return { login, deadline: now + timeout, endedAt: 0 }
  return { login, deadline: Math.min(Number(record.deadline), now + timeout), endedAt: Number(record.endedAt) || 0 }
}

/**
 * What this tab does at `now` about the idle deadline: nothing, end the session, or follow the tab that ends it.
 * @param {IdleRecord} record
 * @param {number} now
 * @returns {'active' | 'end' | 'follow'}
 */
export function idleStep(record, now) {
  if (record.endedAt === 0 && now < record.deadline) return 'active'
  return record.endedAt > 0 && now - record.endedAt < IDLE_TAKEOVER ? 'follow' : 'end'
}

/**
 * What to do after a message of the OP iframe (Session Management 1.0, 3.1); other messages are ignored.
 * @param {{origin: string, data: unknown}} message
 * @param {string} expectedOrigin
 * @returns {'recheck' | 'believe' | 'stop' | 'ignore'}
 */
export function afterMessage(message, expectedOrigin) {
  if (message.origin !== expectedOrigin) return 'ignore'
  if (message.data === 'changed') return 'recheck'
  if (message.data === 'unchanged') return 'believe'
  return message.data === 'error' ? 'stop' : 'ignore'
}

/**
 * An iframe that never said `unchanged` in this browser may be one without its cookies, and is not believed.
 * @param {string | null} stored
 * @returns {CheckRecord}
 */
export function checkRecord(stored) {
  const { checks, notBefore } = parseObject(stored)
  return { checks: typeof checks === 'number' ? checks : CHECK_LIMIT, notBefore: Number(notBefore) || 0 }
}

/**
 * Whether `changed` is followed by a silent login. An iframe without access to its cookies says `changed` for ever (5.1).
 * @param {CheckRecord} record
 * @param {number} now
 * @returns {'now' | 'later' | 'never'}
 */
export function checkAllowed(record, now) {
  if (record.checks >= CHECK_LIMIT) return 'never'
  return now < record.notBefore ? 'later' : 'now'
}

/**
 * The record after a silent login. One that ended a session is the last: a browser that begins to block the OP's cookies
 * costs at most one session.
 * @param {CheckRecord} record
 * @param {'keep' | 'end' | 'retry'} verdict
 * @param {number} now
 * @returns {CheckRecord}
 */
export function afterCheck(record, verdict, now) {
  if (verdict === 'end') return { checks: CHECK_LIMIT, notBefore: 0 }
  return { checks: record.checks + 1, notBefore: now + (CHECK_PAUSES[record.checks] ?? 0) }
}

/** @param {unknown} message @returns {SilentAnswer | null} null for anything else */
export function silentAnswer(message) {
  if (!isObject(message) || message.type !== 'oidc-silent') return null
  return { outcome: String(message.outcome), code: String(message.code ?? '') }
}

/**
 * What a silent login means for the session; an unknown outcome or code ends it.
 * @param {SilentAnswer} answer
 * @returns {'keep' | 'end' | 'retry'}
 */
export function verdictOf({ outcome, code }) {
  if (outcome === 'same_user') return 'keep'
  return outcome === 'error' && INCONCLUSIVE.test(code) ? 'retry' : 'end'
}

/**
 * Where `redirect-on-expired` and `redirect-on-revoked` lead: a word of ours, a URL of this origin, or nowhere.
 * @param {string | null} value
 * @param {string} page URL of the page
 */
export function redirectTarget(value, page) {
  if (value === null || ['login', 'logout', 'reload'].includes(value)) return value
  const url = URL.canParse(value, page) ? new URL(value, page) : null
  return url?.origin === new URL(page).origin ? url.href : null
}

// ------------------------------------------------------------------ effects

const ACTIVITY = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'scroll']
const WAKING = ['focus', 'online', 'visibilitychange']
const REQUEST_TIMEOUT = 10 * SECOND
/** How often a tab checks whether another tab's idle logout is complete. */
const FOLLOW_PAUSE = 2 * SECOND
const SILENT_LOGIN_TIMEOUT = 15 * SECOND
/** Monitoring stops after this number of questions in a row to which the OP iframe does not respond. */
const UNANSWERED_LIMIT = 3
/** A page that is still open after this time was not left: the user or a download stopped the navigation. */
const LEAVING = 10 * SECOND
/** A new page's redirect so soon after another one goes in circles, as a login whose heartbeat is refused at once. */
const ROUND = 30 * SECOND

/** What the browser did not store: this tab counts alone. @type {Map<string, string>} */
const memory = new Map()

/** @param {string} key */
function recall(key) {
  try {
    return memory.get(key) ?? localStorage.getItem(key)
  } catch {
    return null
  }
}

/**
 * Writes only changes: writing an old record again would overwrite a newer one of another tab.
 * @param {string} key
 * @param {IdleRecord | CheckRecord} record
 */
function remember(key, record) {
  const text = JSON.stringify(record)
  if (recall(key) === text) return
  try {
    localStorage.setItem(key, text)
    memory.delete(key)
  } catch {
    memory.set(key, text)
  }
}

/**
 * Runs `work` in one tab at a time; without secure context there are no locks.
 * @param {string} name
 * @param {() => Promise<void>} work
 */
async function exclusively(name, work) {
  if (navigator.locks) await navigator.locks.request(name, work)
  else await work()
}

/**
 * Tells `decide` whether this tab is the first. It stays so for a second: what it stores takes a moment to reach the others.
 * @param {string} name
 * @param {(isFirst: boolean) => void} decide
 * @returns {Promise<void>} settled once it has decided
 */
function firstOfTabs(name, decide) {
  return new Promise((decided) => {
    /** @param {boolean} isFirst */
    const ask = (isFirst) => {
      decide(isFirst)
      decided()
      return new Promise((release) => setTimeout(release, isFirst ? SECOND : 0))
    }
    if (navigator.locks) void navigator.locks.request(name, { ifAvailable: true }, (lock) => ask(lock !== null))
    else void ask(true)
  })
}

/** Whether the redirect before this one led this tab away from a page a moment ago. */
function followsAnother() {
  try {
    const last = Number(sessionStorage.getItem('oidc-context:redirect'))
    sessionStorage.setItem('oidc-context:redirect', String(Date.now()))
    return Date.now() - last < ROUND
  } catch {
    return false
  }
}

/** @param {PublicSession | null} session @returns {Record<string, string>} */
const csrfHeader = (session) => (session?.csrf_token ? { 'X-CSRF-Token': session.csrf_token } : {})

/** @param {string} src @param {string} title */
function hiddenFrame(src, title) {
  const frame = document.createElement('iframe')
  frame.hidden = true
  frame.title = title
  frame.src = src
  return frame
}

/**
 * @param {string} action
 * @param {Record<string, string | undefined>} fields
 */
function submitForm(action, fields) {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = action
  form.hidden = true
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue
    const input = document.createElement('input')
    input.type = 'hidden'
    input.name = name
    input.value = value
    form.append(input)
  }
  document.body.append(form)
  form.submit()
}

/**
 * Polls the OP iframe once it has loaded, while the page is visible and until `signal`. Silence means `stop`: a provider
 * that may not be framed (X-Frame-Options) loads as an error page, which no page can see.
 * @param {MonitorConfig} config
 * @param {{root: ShadowRoot, signal: AbortSignal, sessionState: () => string | null,
 *   answered: (answer: 'recheck' | 'believe' | 'stop') => void}} owner `sessionState` null: no question now
 */
function pollProvider(config, { root, signal, sessionState, answered }) {
  const { origin } = new URL(config.check_session_iframe)
  const frame = hiddenFrame(config.check_session_iframe, 'Sign-in state at the provider')
  let timer = 0
  let unanswered = 0
  const poll = () => {
    const state = sessionState()
    if (!state || document.hidden) return
    if (unanswered >= UNANSWERED_LIMIT) return answered('stop')
    unanswered += 1
    frame.contentWindow?.postMessage(`${config.client_id} ${state}`, origin)
  }
  frame.addEventListener('load', () => {
    clearInterval(timer)
    timer = window.setInterval(poll, config.poll_interval * SECOND)
    poll()
  })
  addEventListener('message', (event) => {
    const answer = event.source === frame.contentWindow ? afterMessage(event, origin) : 'ignore'
    if (answer === 'ignore') return
    unanswered = 0
    answered(answer)
  }, { signal })
  signal.addEventListener('abort', () => {
    clearInterval(timer)
    frame.remove()
  })
  root.append(frame)
}

/**
 * A login with prompt=none in a hidden iframe, through the ordinary login and callback routes.
 * @param {string} loginUrl
 * @param {ShadowRoot} root
 * @param {AbortSignal} signal
 * @returns {Promise<SilentAnswer>} outcome `error`, code `timeout` when no answer came
 */
function silentLogin(loginUrl, root, signal) {
  const url = new URL(loginUrl)
  url.searchParams.set('silent', '1')
  const frame = hiddenFrame(url.href, 'Sign-in check')
  const over = new AbortController()
  return new Promise((resolve) => {
    /** @param {SilentAnswer} answer */
    const finish = (answer) => {
      over.abort()
      clearTimeout(timer)
      frame.remove()
      resolve(answer)
    }
    const giveUp = () => finish({ outcome: 'error', code: 'timeout' })
    const timer = setTimeout(giveUp, SILENT_LOGIN_TIMEOUT)
    signal.addEventListener('abort', giveUp, { signal: over.signal })
    addEventListener('message', (event) => {
      const ours = event.source === frame.contentWindow && event.origin === location.origin
      const answer = ours ? silentAnswer(event.data) : null
      if (answer) finish(answer)
    }, { signal: over.signal })
    root.append(frame)
  })
}

/** Lets Node import this module for its decisions. */
const Base = /** @type {typeof HTMLElement} */ (globalThis.HTMLElement ?? class {})

/** Has the server's last response and the deadlines, and carries out the decisions. */
export class OIDCContext extends Base {
  static observedAttributes = [
    'session-url', 'config-url', 'login-url', 'logout-url', 'heartbeat-url',
    'idle-timeout', 'redirect-on-idle', 'redirect-on-expired', 'redirect-on-revoked', 'revalidate-interval',
  ]

  /** Registers the element; a second copy of this script leaves the first in charge. */
  static define(tag = 'oidc-context', registry = globalThis.customElements) {
    if (registry && !registry.get(tag)) registry.define(tag, this)
  }

  /** @type {Status} */ #status = 'loading'
  /** @type {Monitoring} */ #monitoring = 'off'
  /** @type {Readonly<PublicSession> | null} */ #session = null
  /** @type {Promise<void> | null} */ #checking = null
  /** @type {BroadcastChannel | null} */ #channel = null
  #life = new AbortController()
  /** @type {AbortController | null} */ #watch = null
  #timer = 0
  #tickedAt = 0
  #skew = 0
  #failures = 0
  #checkedAt = 0
  #activeAt = 0
  /** Somebody was here since the server last heard of it. */ #isUnheard = false
  /** @type {string | null} */ #ended = null
  #revalidateAt = Infinity
  /** The server was not asked to the end yet. */ #isNew = true
  /** The session that must go, and the server could not be told yet. @type {Readonly<PublicSession> | null} */ #owed = null
  /** Another tab is ending the idle session. */ #following = false
  /** Until then the page is being left, and no second navigation cancels the first. */ #leavingUntil = 0
  /** Where to go when the page was not left after all. @type {string | null} */ #redirectOwed = null

  /** Whether the server said that there is a session and neither of its deadlines has come since. */
  get isAuthenticated() { return this.#status === 'authenticated' }
  /** The public session; null unless authenticated. */
  get session() { return this.#session }
  /** The member `identity` of the public session, or null. */
  get identity() { return this.#session?.identity ?? null }
  get status() { return this.#status }
  /** Why the server ended the last session, if it said so. */
  get ended() { return this.#ended }
  /** Whether the OP's iframe is watched. */
  get monitoring() { return this.#monitoring }

  get sessionUrl() { return this.#url('session-url', 'session') }
  set sessionUrl(value) { this.#reflect('session-url', value) }
  get configUrl() { return this.#url('config-url', 'session-management') }
  set configUrl(value) { this.#reflect('config-url', value) }
  get loginUrl() { return this.#url('login-url', 'login') }
  set loginUrl(value) { this.#reflect('login-url', value) }
  get logoutUrl() { return this.#url('logout-url', 'logout') }
  set logoutUrl(value) { this.#reflect('logout-url', value) }
  get heartbeatUrl() { return this.getAttribute('heartbeat-url') }
  set heartbeatUrl(value) { this.#reflect('heartbeat-url', value) }
  get idleTimeout() { return this.#seconds('idle-timeout', 0) }
  set idleTimeout(value) { this.#reflect('idle-timeout', value) }
  get redirectOnIdle() { return this.getAttribute('redirect-on-idle') }
  set redirectOnIdle(value) { this.#reflect('redirect-on-idle', value) }
  get redirectOnExpired() { return this.getAttribute('redirect-on-expired') }
  set redirectOnExpired(value) { this.#reflect('redirect-on-expired', value) }
  get redirectOnRevoked() { return this.getAttribute('redirect-on-revoked') }
  set redirectOnRevoked(value) { this.#reflect('redirect-on-revoked', value) }
  get revalidateInterval() { return this.#seconds('revalidate-interval', 60) }
  set revalidateInterval(value) { this.#reflect('revalidate-interval', value) }

  /**
   * Navigates to the login route, and afterwards back to `returnTo`.
   * @param {{returnTo?: string}} [options]
   */
  login({ returnTo = location.pathname + location.search } = {}) {
    const url = new URL(this.loginUrl)
    url.searchParams.set('return_to', returnTo)
    this.#leave()
    location.assign(url)
  }

  /**
   * Ends the session here and at the provider; the browser leaves this page.
   * @param {{returnTo?: string}} [options]
   */
  logout({ returnTo } = {}) {
    this.#leave()
    submitForm(this.logoutUrl, { return_to: returnTo })
  }

  /**
   * Ends only the session of this application; the browser leaves this page.
   * @param {{returnTo?: string}} [options]
   */
  logoutLocal({ returnTo } = {}) {
    this.#leave()
    submitForm(this.logoutUrl, { local: '1', return_to: returnTo })
  }

  /**
   * Gets the session from the server; concurrent calls share one request. Without a response nothing changes.
   * @returns {Promise<Status>} the status afterwards
   */
  async revalidate() {
    await (this.#checking ?? this.#revalidateAfresh())
    return this.#status
  }

  connectedCallback() {
    if (!this.shadowRoot) this.attachShadow({ mode: 'open' }).append(document.createElement('slot'))
    this.#start()
  }

  /** Releases every timer, listener, channel, request and iframe. */
  disconnectedCallback() {
    this.#life.abort()
    this.#stopWatching('off')
    clearTimeout(this.#timer)
    this.#channel?.close()
    this.#channel = null
    this.#checking = null
  }

  /** @param {string} name @param {string | null} before @param {string | null} after */
  attributeChangedCallback(name, before, after) {
    if (!this.#channel || !this.isConnected || before === after) return
    if (name === 'session-url' || name === 'config-url') {
      this.disconnectedCallback()
      this.#start()
      return
    }
    const record = this.#idle(this.#session)
    if (record) this.#keepIdle(record)
    this.#pace()
    this.#tick()
  }

  /** Says in the browser's console which attributes are misspelled, and which times are none. */
  #checkAttributes() {
    for (const { name, value } of this.attributes) {
      const meant = OIDCContext.observedAttributes.find((each) => each.replaceAll('-', '') === name.replace(/[-_]/g, ''))
      if (!meant) continue
      if (meant !== name) console.error(`oidc-context: the attribute ${name} has no effect, ${meant} has`)
      const isTime = meant === 'idle-timeout' || meant === 'revalidate-interval'
      if (isTime && !(Number(value) >= 0)) console.error(`oidc-context: ${name}="${value}" is no number of seconds`)
    }
  }

  #start() {
    this.#checkAttributes()
    this.#life = new AbortController()
    this.#isNew = true
    const { signal } = this.#life
    for (const type of ACTIVITY) addEventListener(type, this.#onActivity, { signal, capture: true, passive: true })
    for (const type of WAKING) addEventListener(type, this.#onWake, { signal })
    addEventListener('pageshow', this.#onReturn, { signal })
    // A form that signs out ends the session before its response navigates away.
    addEventListener('submit', (event) => { if (!event.defaultPrevented) this.#leave() }, { signal })
    this.#channel = new BroadcastChannel(this.#key())
    this.#channel.onmessage = ({ data }) => {
      if (data !== sharedBy(this.#session)) this.#revalidateNext()
    }
    this.#session = null
    this.#redirectOwed = null
    this.#status = 'loading'
    this.setAttribute('status', this.#status)
    void this.revalidate()
  }

  /** Does what is due, and sets a timer for the next action. */
  #tick = () => {
    clearTimeout(this.#timer)
    if (!this.isConnected) return
    const now = Date.now()
    // A clock that was set back: what was to be asked, and every deadline, may be hours away.
    if (now < this.#tickedAt - SECOND) this.#revalidateAt = 0
    this.#tickedAt = now
    const isLeaving = now < this.#leavingUntil
    const step = isLeaving ? 'wait' : due(this.#plan(), now)
    if (step === 'idle') return void this.#endIdle(this.#session)
    if (step === 'expire') this.#expire()
    else if (step === 'revalidate') void this.revalidate()
    else if (this.#redirectOwed && !isLeaving) this.#redirect(this.#redirectOwed)
    this.#timer = window.setTimeout(this.#tick, isLeaving ? LONGEST_NAP : nap(this.#plan(), now))
  }

  /** @returns {Plan} */
  #plan() {
    return {
      status: this.#status,
      expiresAt: expiryOf(this.#session, this.#skew),
      idleAt: this.#idle(this.#session)?.deadline ?? Infinity,
      revalidateAt: this.#checking ? Infinity : this.#revalidateAt,
      visible: !document.hidden,
    }
  }

  /** A sign of life moves the deadline, unless the deadline has passed: then it comes too late. */
  #onActivity = () => {
    const now = Date.now()
    if (!this.isAuthenticated || Math.abs(now - this.#activeAt) < SECOND) return
    this.#activeAt = now
    this.#isUnheard = true
    const record = this.#idle(this.#session)
    if (record && idleStep(record, now) === 'active') this.#keepIdle({ ...record, deadline: now + this.idleTimeout * SECOND })
    // The server hears of it half-way to its own deadline.
    this.#revalidateAt = Math.min(this.#revalidateAt, now + this.#idleRest(now) / 2)
    this.#tick()
  }

  #onWake = () => {
    if (Date.now() - this.#checkedAt >= SECOND) this.#revalidateNext()
  }

  /** The page was left, and is shown again as it was. @param {PageTransitionEvent} event */
  #onReturn = ({ persisted }) => {
    if (!persisted) return
    this.#leavingUntil = 0
    this.#revalidateNext()
  }

  /** Checks the session, again after a check under way, whose response may be outdated. */
  #revalidateNext() {
    this.#revalidateAt = 0
    this.#tick()
  }

  /** Asks no later than is due. */
  #pace() {
    const interval = this.isAuthenticated ? this.revalidateInterval * SECOND : this.#following ? FOLLOW_PAUSE : 0
    const pause = revalidationPause({ interval, failures: this.#failures, random: Math.random() })
    const now = Date.now()
    this.#revalidateAt = Math.min(this.#revalidateAt, now + pause, now + this.#idleRest(now))
  }

  /** How long the server's session continues without a request. @param {number} now */
  #idleRest(now) {
    if (this.#failures > 0) return Infinity
    return Math.max(SECOND, expiryOf(this.#session, this.#skew, 'idle_expires_at') - now)
  }

  /** @param {AbortSignal} signal */
  async #check(signal) {
    const active = this.#isUnheard
    this.#isUnheard = false
    this.#revalidateAt = Infinity
    this.#checkedAt = Date.now()
    const session = await this.#ask(active)
    this.#isUnheard ||= active && !session
    if (signal.aborted) return
    this.#failures = session ? 0 : this.#failures + 1
    if (session) await this.#accept(session)
    this.#pace()
    if (this.isAuthenticated && session && (active || !session.idle_expires_at)) await this.#beat(signal)
    this.#isNew = false
  }

  /**
   * What the server has, once a login that must go is gone; one that another tab has made meanwhile stays.
   * @param {boolean} active whether the user is active
   * @returns {Promise<Readonly<PublicSession> | null>} null when the server does not respond
   */
  async #ask(active) {
    const session = await this.#fetchSession(active)
    if (!session || !this.#owed) return session
    this.#owed = loginOf(session) === loginOf(this.#owed) ? session : null
    if (!this.#owed) return session
    return (await this.#clear(this.#owed)) ? this.#fetchSession(active) : null
  }

  /** @param {boolean} active @returns {Promise<Readonly<PublicSession> | null>} */
  async #fetchSession(active) {
    const url = new URL(this.sessionUrl)
    if (active) url.searchParams.set('active', '1')
    const answer = await this.#request(url.href)
    if (answer?.status === 401) return { is_authenticated: false }
    if (!answer?.ok) return null
    this.#skew = clockSkew(answer.headers.get('Date'), Date.now())
    return answer.json().then(parseSession).catch(() => null)
  }

  /** @param {Readonly<PublicSession>} session */
  async #accept(session) {
    this.#ended = session.ended ?? null
    const status = statusAfter(this.#status, session, Date.now() >= expiryOf(session, this.#skew))
    const idle = status === 'authenticated' ? this.#idle(session) : null
    if (idle && idleStep(idle, Date.now()) !== 'active') return this.#endIdle(session)
    if (idle) this.#keepIdle(idle)
    if (status === 'expired' && this.isAuthenticated) this.#expire()
    else if (status === 'revoked' && this.isAuthenticated) this.#revoke('session_ended')
    else this.#become(status, status === 'authenticated' ? session : null)
    if (this.#following && status === 'idle') this.#redirect(this.redirectOnExpired)
    this.#following = false
  }

  /** Reports activity to the server, which may respond that the session has ended. @param {AbortSignal} signal */
  async #beat(signal) {
    if (!this.heartbeatUrl) return
    const answer = await this.#request(this.heartbeatUrl, { method: 'POST', headers: csrfHeader(this.#session) })
    if (answer?.status === 404 || answer?.status === 405) {
      console.error(`oidc-context: POST ${this.heartbeatUrl} is answered with ${answer.status}`)
    }
    if (signal.aborted || (answer?.status !== 401 && answer?.status !== 403)) return
    await this.#end('heartbeat', loginOf(this.#session))
  }

  #expire() {
    this.#revalidateAt = Infinity
    this.#become('expired', null)
    if (this.#emit('oidc-expired')) this.#redirect(this.redirectOnExpired)
  }

  /**
   * One tab ends the idle session, the others show it and wait for the server to confirm.
   * @param {PublicSession | null} session
   */
  async #endIdle(session) {
    const { signal } = this.#life
    const shown = this.#session
    await firstOfTabs(this.#key('idle-lock'), (isFirst) => {
      if (signal.aborted || this.#session !== shown) return
      const record = this.#idle(session)
      const step = record ? idleStep(record, Date.now()) : 'active'
      if (step === 'active' || !record) this.#become('authenticated', session)
      else if (step === 'follow' || !isFirst) this.#follow()
      else if (this.#emit('oidc-idle')) this.#leaveIdle(record)
      else this.#stay(record, session)
    })
    this.#tick()
  }

  #follow() {
    this.#following = true
    this.#become('idle', null)
    this.#pace()
  }

  /** The page wants the session to continue. @param {IdleRecord} record @param {PublicSession | null} session */
  #stay(record, session) {
    this.#keepIdle({ ...record, deadline: Date.now() + this.idleTimeout * SECOND, endedAt: 0 })
    this.#become('authenticated', session)
  }

  /** @param {IdleRecord} record */
  #leaveIdle(record) {
    this.#keepIdle({ ...record, endedAt: Date.now() })
    this.#become('idle', null)
    if (this.redirectOnIdle === 'logout') this.logoutLocal()
    else this.logout()
  }

  /**
   * Ends a session that the server still has.
   * @param {string} reason
   * @param {string | null} login of which the reason is known
   */
  async #end(reason, login) {
    if (!this.#session || loginOf(this.#session) !== login) return
    this.#owed = this.#session
    this.#become('revoked', null)
    if (!(await this.#clear(this.#owed))) this.#failures += 1
    this.#pace()
    this.#revoke(reason)
  }

  /** @param {string} reason */
  #revoke(reason) {
    this.#become('revoked', null)
    // While the server still holds the session, the next page would only come back here.
    const detail = this.#ended ? { reason, ended: this.#ended } : { reason }
    if (this.#emit('oidc-revoked', detail) && !this.#owed) this.#redirect(this.redirectOnRevoked)
  }

  /**
   * Also when the element goes away meanwhile. The token lets the server end no other session, made in another tab.
   * @param {Readonly<PublicSession>} session
   * @returns {Promise<boolean>} whether the server has ended the session
   */
  async #clear(session) {
    const answer = await this.#request(this.logoutUrl, {
      method: 'POST', headers: csrfHeader(session), body: new URLSearchParams({ local: '1' }),
      redirect: 'manual', keepalive: true, signal: AbortSignal.timeout(REQUEST_TIMEOUT),
    })
    if (!answer?.ok && answer?.type !== 'opaqueredirect') return false
    this.#owed = null
    this.#channel?.postMessage(null)
    return true
  }

  async #watchProvider() {
    if (this.#watch || this.#monitoring === 'stopped' || !this.#session?.session_state) return
    const watch = new AbortController()
    this.#watch = watch
    const answer = await this.#request(this.configUrl)
    const content = answer?.ok ? await answer.json().catch(() => null) : null
    if (watch.signal.aborted) return
    const config = parseMonitorConfig(content, location.origin)
    if (!content) this.#watch = null
    if (!config) return
    this.#monitoring = 'watching'
    pollProvider(config, {
      root: this.#root,
      signal: watch.signal,
      sessionState: () => (this.#monitoring === 'watching' && this.#session?.session_state) || null,
      answered: (step) => this.#onProvider(step),
    })
  }

  /** @param {'off' | 'stopped'} monitoring */
  #stopWatching(monitoring) {
    this.#watch?.abort()
    this.#watch = null
    this.#monitoring = monitoring
  }

  /** @param {'recheck' | 'believe' | 'stop'} step */
  #onProvider(step) {
    // While the server is unreachable, the checks become less frequent, whatever the provider says.
    if (this.#monitoring !== 'watching' || this.#failures > 0) return
    const record = checkRecord(recall(this.#key('checks')))
    const allowed = checkAllowed(record, Date.now())
    if (step === 'believe' && record.checks > 0) remember(this.#key('checks'), { checks: 0, notBefore: 0 })
    if (step === 'stop' || (step === 'recheck' && allowed === 'never')) this.#stopWatching('stopped')
    if (step === 'recheck' && allowed === 'now') void this.#recheck(this.#life.signal)
  }

  /** One tab checks; the others find its new session_state. @param {AbortSignal} signal */
  async #recheck(signal) {
    const doubted = this.#session?.session_state
    this.#monitoring = 'checking'
    await exclusively(this.#key('check-lock'), async () => {
      await this.#revalidateAfresh()
      const record = checkRecord(recall(this.#key('checks')))
      const open = this.isAuthenticated && this.#failures === 0 && this.#session?.session_state === doubted
      if (open && !signal.aborted && checkAllowed(record, Date.now()) === 'now') await this.#checkSilently(record, signal)
    })
    if (this.#monitoring === 'checking') this.#monitoring = 'watching'
  }

  /** @param {CheckRecord} record @param {AbortSignal} signal */
  async #checkSilently(record, signal) {
    const login = loginOf(this.#session)
    const answer = await silentLogin(this.loginUrl, this.#root, signal)
    if (signal.aborted) return
    const verdict = verdictOf(answer)
    remember(this.#key('checks'), afterCheck(record, verdict, Date.now()))
    if (verdict === 'keep') await this.#revalidateAfresh()
    if (verdict !== 'end') return
    await this.#afterwards(() => this.#end(answer.outcome === 'other_user' ? 'other_user' : 'provider', login))
    // The session did not end yet: another page is to find out as well.
    if (this.#owed) remember(this.#key('checks'), afterCheck(record, 'retry', Date.now()))
  }

  /** A response to an earlier request may be stale. */
  #revalidateAfresh() {
    return this.#afterwards(() => this.#check(this.#life.signal))
  }

  /** One thing at a time: no answer is late. @param {() => Promise<void>} work */
  async #afterwards(work) {
    while (this.#checking) await this.#checking
    const working = work()
    this.#checking = working
    await working
    if (this.#checking === working) this.#checking = null
    this.#tick()
  }

  /**
   * Informs other tabs of a login or a logout; they read the deadlines themselves.
   * @param {Status} status
   * @param {Readonly<PublicSession> | null} session
   */
  #become(status, session) {
    const previous = this.#status
    if (loginOf(session) !== loginOf(this.#session)) this.#stopWatching('off')
    const moved = sharedBy(session) !== sharedBy(this.#session) || previous === 'loading'
    const changed = previous !== status || !sameSession(session, this.#session)
    this.#status = status
    this.#session = session
    if (session) {
      this.#redirectOwed = null
      void this.#watchProvider()
    }
    if (!changed) return
    this.setAttribute('status', status)
    if (moved && !this.#owed && status !== 'expired' && status !== 'idle') this.#channel?.postMessage(sharedBy(session))
    this.#emit('oidc-change', { status, previous })
  }

  /**
   * @param {string} type
   * @param {Record<string, unknown>} [detail]
   * @returns {boolean} false when a listener prevented what follows
   */
  #emit(type, detail = {}) {
    const cancelable = type !== 'oidc-change'
    return this.dispatchEvent(new CustomEvent(type, { bubbles: true, composed: true, cancelable, detail }))
  }

  #leave() {
    this.#leavingUntil = Date.now() + LEAVING
  }

  /** @param {string | null} value of a redirect attribute */
  #redirect(value) {
    const target = redirectTarget(value, location.href)
    if (!target || !this.isConnected) return
    // A hidden page waits: when it is shown, a user may be signed in again.
    this.#redirectOwed = document.hidden || Date.now() < this.#leavingUntil ? value : null
    // A page that a redirect led to, and that has nothing but another one to offer, would come back for ever.
    if (this.#redirectOwed || (followsAnother() && this.#isNew)) return
    if (target === 'login') return this.login()
    if (target === 'logout') return this.logout()
    this.#leave()
    if (target === 'reload') location.reload()
    else location.assign(target)
  }

  /**
   * @param {string} url
   * @param {RequestInit} [init]
   * @returns {Promise<Response | null>} null when the server cannot be reached, or the page slept until the answer was old
   */
  async #request(url, init) {
    const signal = AbortSignal.any([this.#life.signal, AbortSignal.timeout(REQUEST_TIMEOUT)])
    const sentAt = Date.now()
    try {
      const answer = await fetch(url, { cache: 'no-store', mode: 'same-origin', signal, ...init })
      return Date.now() - sentAt > REQUEST_TIMEOUT ? null : answer
    } catch {
      return null
    }
  }

  /** @param {PublicSession | null} session @returns {IdleRecord | null} null without session or timeout */
  #idle(session) {
    const login = loginOf(session)
    if (!login || this.idleTimeout === 0) return null
    return idleRecord(recall(this.#key('idle')), { login, now: Date.now(), timeout: this.idleTimeout * SECOND })
  }

  /** @param {IdleRecord} record */
  #keepIdle(record) {
    remember(this.#key('idle'), record)
  }

  get #root() {
    return /** @type {ShadowRoot} */ (this.shadowRoot)
  }

  /** Names what tabs share; elements of two providers share nothing. @param {string} what */
  #key(what = 'login') {
    return `oidc-context:${what}:${this.sessionUrl}`
  }

  /** @param {string} attribute @param {string} beside the script, when the attribute is absent */
  #url(attribute, beside) {
    const value = this.getAttribute(attribute)
    return value === null ? new URL(beside, import.meta.url).href : new URL(value, document.baseURI).href
  }

  /** @param {string} attribute @param {number} otherwise */
  #seconds(attribute, otherwise) {
    const seconds = Number.parseFloat(this.getAttribute(attribute) ?? '')
    return seconds >= 0 ? seconds : otherwise
  }

  /** @param {string} attribute @param {string | number | null} value */
  #reflect(attribute, value) {
    if (value === null) this.removeAttribute(attribute)
    else this.setAttribute(attribute, String(value))
  }
}

OIDCContext.define()
