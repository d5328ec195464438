// @ts-check
/** Without this script the console works too; with it times are local, buttons tell what they do, pages stay true. */

const WATCH_EVERY = 2000

for (const time of document.querySelectorAll('time[data-clock]')) localise(time)

/** @param {Element} time */
function localise(time) {
  const moment = new Date(/** @type {HTMLTimeElement} */ (time).dateTime)
  time.textContent = moment.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
}

const relative = new Intl.RelativeTimeFormat('en')
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [['day', 86400], ['hour', 3600], ['minute', 60]]

function tellAges() {
  for (const time of document.querySelectorAll('time[data-ago]')) {
    const moment = new Date(/** @type {HTMLTimeElement} */ (time).dateTime)
    const seconds = (Date.now() - moment.getTime()) / 1000
    const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? ['second', 0]
    time.textContent = length ? relative.format(-Math.floor(seconds / length), unit) : 'just now'
    time.setAttribute('title', moment.toLocaleString())
  }
}
tellAges()
setInterval(tellAges, 30000)

function tellUptimes() {
  for (const time of document.querySelectorAll('time[data-up]')) {
    const since = new Date(/** @type {HTMLTimeElement} */ (time).dateTime)
    const seconds = Math.max(0, Math.floor((Date.now() - since.getTime()) / 1000))
    const [minutes, hours, days] = [60, 3600, 86400].map((length) => Math.floor(seconds / length))
    const told = days ? `${days} d ${hours % 24} h` : hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min` : `${seconds} s`
    time.textContent = `up ${told}`
    time.setAttribute('title', `since ${since.toLocaleString()}`)
  }
}
tellUptimes()
setInterval(tellUptimes, 1000)

const wrong = document.querySelector('main [aria-invalid="true"]')
if (wrong instanceof HTMLElement) wrong.focus()

document.addEventListener('submit', (event) => {
  const button = /** @type {SubmitEvent} */ (event).submitter
  if (!(button instanceof HTMLButtonElement) || !button.dataset.working) return
  if (button.ariaBusy === 'true') return event.preventDefault()
  if (button.dataset.confirm && !confirm(button.dataset.confirm)) return event.preventDefault()
  button.ariaBusy = 'true'
  button.textContent = button.dataset.working
})

document.querySelector('.tabs [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })

const menu = /** @type {HTMLDetailsElement | null} */ (document.querySelector('.account'))

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !menu?.open) return
  menu.open = false
  menu.querySelector('summary')?.focus()
})

document.addEventListener('pointerdown', ({ target }) => {
  if (menu && !(target instanceof Node && menu.contains(target))) menu.open = false
})

// A page that comes back from the browser's memory shows what was, not what is.
window.addEventListener('pageshow', (event) => event.persisted && location.reload())

/** @param {() => Promise<void>} look */
function everyNowAndThen(look) {
  setInterval(() => {
    if (!document.hidden && !document.querySelector('[aria-busy="true"]')) void look()
  }, WATCH_EVERY)
}

/**
 * The answer, or null when there is none; a session that is over is the business of `<oidc-context>`.
 * @param {string} url
 */
async function ask(url) {
  const answer = await fetch(url, { headers: { Accept: 'application/json' } }).catch(() => null)
  if (answer?.status === 401) void /** @type {any} */ (document.querySelector('oidc-context')).revalidate?.()
  return answer?.ok ? answer : null
}

for (const part of document.querySelectorAll('[data-refresh]')) {
  const url = part.getAttribute('data-refresh') ?? ''
  everyNowAndThen(async () => {
    const answer = await ask(url)
    const html = await answer?.text()
    if (html !== undefined && !part.contains(document.activeElement)) part.innerHTML = html
  })
}

for (const machine of document.querySelectorAll('[data-watch]')) {
  const { page = '/', watch = '', shown = '' } = /** @type {HTMLElement} */ (machine).dataset
  // A reload shows the machine, without the message of a change and without repeating it.
  history.replaceState(null, '', page)
  let typed = false
  let told = false
  machine.addEventListener('input', () => (typed = true))
  everyNowAndThen(async () => {
    const answer = await ask(watch)
    if (told || !answer || (await answer.json()).shown === shown) return
    if (!typed) return location.assign(page)
    told = true
    tell('The machine has changed meanwhile. Reload the page to see it; what you typed will be lost.')
  })
}

/** @param {string} text */
function tell(text) {
  const notice = document.createElement('p')
  notice.className = 'notice bad'
  notice.role = 'alert'
  notice.textContent = text
  document.querySelector('.head')?.after(notice)
}

const LONGEST_CONSOLE = 262144

/**
 * @param {Element} screen
 * @param {string} text
 * @param {string} classes
 */
function write(screen, text, classes) {
  const last = screen.lastChild
  if (!classes && last instanceof Text) return last.appendData(text)
  if (!classes) return screen.append(text)
  if (last instanceof Element && last.className === classes) return last.append(text)
  const span = document.createElement('span')
  span.className = classes
  span.append(text)
  screen.append(span)
}

/**
 * The oldest text goes first.
 * @param {Element} screen
 * @param {number} excess
 */
function forget(screen, excess) {
  for (let first = screen.firstChild; first && excess > 0; first = screen.firstChild) {
    const text = first.textContent ?? ''
    if (text.length > excess) first.textContent = text.slice(excess)
    else first.remove()
    excess -= text.length
  }
}

for (const screen of document.querySelectorAll('[data-stream]')) {
  screen.scrollTop = screen.scrollHeight
  const source = new EventSource(screen.getAttribute('data-stream') ?? '')
  source.onmessage = ({ data }) => {
    const following = screen.scrollHeight - screen.scrollTop - screen.clientHeight < 8
    for (const [text, classes] of JSON.parse(data)) write(screen, text, classes)
    forget(screen, (screen.textContent ?? '').length - LONGEST_CONSOLE)
    if (following) screen.scrollTop = screen.scrollHeight
  }
  source.addEventListener('ended', () => source.close())
}

for (const form of document.querySelectorAll('form[data-typing]')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const typing = /** @type {HTMLFormElement} */ (form)
    const { submitter } = /** @type {SubmitEvent} */ (event)
    const body = new URLSearchParams(/** @type {any} */ (new FormData(typing, submitter)))
    const line = /** @type {HTMLInputElement} */ (typing.elements.namedItem('line'))
    const answer = await fetch(typing.action, { method: 'POST', body }).catch(() => null)
    if (!answer?.ok) return tell('The guest did not get this. What you typed is still there.')
    line.value = ''
    line.focus()
  })
}

/*
 * What was typed survives the end of the session: drafts stay in this tab, are filled in again after signing in, for the
 * same person on the same page, and go with everything else when that person signs out.
 */
const DRAFTS = 'drafts'
const { user } = document.body.dataset
const place = location.pathname

/** @returns {{user: string, place: string, texts: Record<string, string>} | null} */
function drafts() {
  try {
    return JSON.parse(sessionStorage.getItem(DRAFTS) ?? 'null')
  } catch {
    return null
  }
}

/** @returns {HTMLInputElement[]} */
function typedInto() {
  return [...document.querySelectorAll('main form :is(input[id], textarea[id], select[id])')].map((input) => /** @type {any} */ (input))
}

if (user) {
  const draft = drafts()
  if (draft && (draft.user !== user || draft.place === place)) sessionStorage.removeItem(DRAFTS)
  if (draft?.user === user && draft.place === place && !document.querySelector('[role="status"], [aria-invalid="true"]')) {
    fillIn(draft.texts)
  }
  addEventListener('input', () => {
    const texts = Object.fromEntries(typedInto().map((input) => [input.id, input.type === 'checkbox' ? String(input.checked) : input.value]))
    sessionStorage.setItem(DRAFTS, JSON.stringify({ user, place, texts }))
  })
  addEventListener('submit', ({ target }) => {
    const action = new URL(/** @type {HTMLFormElement} */ (target).action).pathname
    if (action.startsWith('/account/') || action === '/auth/logout') sessionStorage.removeItem(DRAFTS)
  })
}

/** @param {Element} input */
function unfold(input) {
  for (let fold = input.closest('details'); fold; fold = fold.parentElement?.closest('details') ?? null) fold.open = true
}

/** @param {Record<string, string>} texts */
function fillIn(texts) {
  const changed = typedInto().filter((input) => input.id in texts && texts[input.id] !== (input.type === 'checkbox' ? String(input.checked) : input.value))
  for (const input of changed) {
    if (input.type === 'checkbox') input.checked = texts[input.id] === 'true'
    else input.value = texts[input.id] ?? ''
    unfold(input)
  }
  if (changed.length) tell('What you typed before is filled in again, and not saved yet.')
}
