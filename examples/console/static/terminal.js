/** Terminals of xterm.js: one stream of output each, and what is typed goes one after another. */
import { FitAddon } from './xterm/addon-fit.mjs'
import { Terminal } from './xterm/xterm.mjs'

const RETRY = 1000
const STREAM_SECONDS = 15
const FOLLOWING = ['stream-1', 'stream-2', 'stream-3']
const LONGEST_TEXT = 1000

/*
 * The Content-Security-Policy allows neither style elements nor style attributes. What xterm.js writes into its own
 * becomes a sheet of the page, and what it writes into attributes goes through the object model, which is allowed.
 */
const setAttribute = Element.prototype.setAttribute
Element.prototype.setAttribute = function (name, value) {
  if (name === 'style' && this instanceof HTMLElement) this.style.cssText = value
  else setAttribute.call(this, name, value)
}
const create = document.createElement.bind(document)
document.createElement = (/** @type {string} */ name, /** @type {any} */ options) => {
  if (name !== 'style') return create(name, options)
  const element = create('template')
  const sheet = new CSSStyleSheet()
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
  return Object.defineProperty(element, 'textContent', { set: (css) => sheet.replaceSync(css) })
}

/** @param {string} text */
function tell(text) {
  const notice = document.createElement('p')
  notice.className = 'notice bad'
  notice.role = 'alert'
  notice.textContent = text
  document.querySelector('.head')?.after(notice)
}

/** The colors of the page, which may be dark. */
function theme() {
  const style = getComputedStyle(document.documentElement)
  const [background, foreground, selectionBackground] = ['--ground', '--ink', '--edge'].map((name) => style.getPropertyValue(name).trim())
  return { background, foreground, cursor: foreground, cursorAccent: background, selectionBackground }
}

/** @param {HTMLElement} place */
function open(place) {
  const { stream = '', input, token = '', page = '', columns, rows, newlines } = place.dataset
  const term = new Terminal({
    fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', fontSize: 14, lineHeight: 1.1, scrollback: 5000, theme: theme(), disableStdin: !input,
    convertEol: newlines === 'bare', minimumContrastRatio: 4.5, ...(columns ? { cols: Number(columns), rows: Number(rows) } : {}),
  })
  place.replaceChildren()
  term.open(place)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (term.options.theme = theme()))
  term.textarea?.setAttribute('aria-label', 'Screen of the guest')
  // Ctrl+Shift+C copies; Shift+Tab leaves the screen, and Ctrl+C interrupts also while text is marked.
  term.attachCustomKeyEventHandler((event) => {
    if (event.ctrlKey && event.shiftKey && event.code === 'KeyC') {
      if (event.type === 'keydown') void navigator.clipboard?.writeText(term.getSelection())
      event.preventDefault()
      return false
    }
    return !(event.key === 'Tab' && event.shiftKey)
  })
  if (input) send(term, input, token, page)
  if (!columns && input) fit(term, place, input, token)
  void follow(term, stream)
  return term
}

/**
 * What is typed goes in order, and what is typed meanwhile together; text is never cut within a character.
 * @param {Terminal} term @param {string} url @param {string} token @param {string} page
 */
function send(term, url, token, page) {
  let waiting = /** @type {string[]} */ ([])
  let sending = false
  async function flush() {
    if (sending) return
    for (sending = true; waiting.length; ) {
      const text = waiting.splice(0, LONGEST_TEXT).join('')
      if (!(await post(url, { csrf_token: token, page, text }))) waiting = []
    }
    sending = false
  }
  term.onData((data) => {
    waiting.push(...data)
    void flush()
  })
}

/**
 * @param {string} url @param {Record<string, string>} fields
 */
async function post(url, fields) {
  const headers = { Accept: 'application/json' }
  const answer = await fetch(url, { method: 'POST', body: new URLSearchParams(fields), headers }).catch(() => null)
  if (answer?.ok) return true
  const { refused = '' } = (await answer?.json().catch(() => null)) ?? {}
  tell(refused || 'The guest did not get this.')
  return false
}

/**
 * The terminal is as wide as its place, and the guest learns its size.
 * @param {Terminal} term @param {HTMLElement} place @param {string} url @param {string} token
 */
function fit(term, place, url, token) {
  const addon = new FitAddon()
  term.loadAddon(addon)
  term.onResize(({ cols, rows }) => void post(url, { csrf_token: token, rows: String(rows), columns: String(cols) }))
  new ResizeObserver(() => addon.fit()).observe(place)
}

/**
 * One response after another, each from where the last one ended; none while nobody sees it.
 * @param {Terminal} term @param {string} url
 */
async function follow(term, url) {
  for (let position = ''; ; ) {
    while (document.hidden) await new Promise((seen) => document.addEventListener('visibilitychange', seen, { once: true }))
    const control = new AbortController()
    const hide = () => document.hidden && control.abort()
    document.addEventListener('visibilitychange', hide)
    const answer = await inTurn(async (seconds) => {
      const query = new URLSearchParams({ position, seconds: String(seconds) })
      const answer = await fetch(`${url}?${query}`, { signal: control.signal }).catch(() => null)
      if (answer?.ok) position = await shown(term, answer)
      if (!seconds) await new Promise((done) => setTimeout(done, RETRY))
      return answer
    })
    document.removeEventListener('visibilitychange', hide)
    if (answer?.status === 401) void (/** @type {any} */ (document.querySelector('oidc-context')).revalidate?.())
    if (answer && answer.status >= 400 && answer.status < 500) return term.write('\r\n\x1b[2m[the end]\x1b[0m')
    if (!answer?.ok) await new Promise((done) => setTimeout(done, RETRY))
  }
}

/**
 * A browser has six connections for all of its windows: some of them follow, the others look now and then.
 * @param {(seconds: number) => Promise<Response | null>} act
 */
async function inTurn(act) {
  for (const name of navigator.locks ? FOLLOWING : []) {
    const answer = await navigator.locks.request(name, { ifAvailable: true }, async (lock) => lock && { answer: await act(STREAM_SECONDS) })
    if (answer) return answer.answer
  }
  return act(navigator.locks ? 0 : STREAM_SECONDS)
}

/**
 * @param {Terminal} term @param {Response} answer
 * @returns {Promise<string>} the position after it
 */
async function shown(term, answer) {
  const start = answer.headers.get('Stream-Position') ?? '0'
  const name = start.includes('.') ? `${start.split('.')[0]}.` : ''
  let at = Number(start.slice(name.length))
  if (answer.headers.get('Stream-Reset') === '1') term.reset()
  const reader = answer.body?.getReader()
  for (;;) {
    const { value } = (await reader?.read().catch(() => undefined)) ?? {}
    if (!value) return `${name}${at}`
    at += value.length
    term.write(value)
  }
}

const opened = [...document.querySelectorAll('.terminal')].map((place) => open(/** @type {HTMLElement} */ (place)))
/* For tests, which read what a person sees. */
Object.assign(window, { terminals: opened })
