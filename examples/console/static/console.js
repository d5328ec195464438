// @ts-check
/** Without this script the console works too; with it times are local, buttons tell what they do, pages stay true. */

const WATCH_EVERY = 2000

for (const time of document.querySelectorAll('time[data-clock]')) localise(time)

/** @param {Element} time */
function localise(time) {
  const moment = new Date(/** @type {HTMLTimeElement} */ (time).dateTime)
  time.textContent = moment.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: time.hasAttribute('data-asof') ? '2-digit' : undefined })
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
  if (button.dataset.confirm) {
    if (!confirm(asked(button))) return event.preventDefault()
    const confirmed = Object.assign(document.createElement('input'), { type: 'hidden', name: 'confirmed', value: 'yes' })
    button.form?.append(confirmed)
  }
  button.ariaBusy = 'true'
  button.textContent = button.dataset.working
})

/**
 * The question before a button does its work: which machine it is, and how it is.
 * @param {HTMLButtonElement} button
 */
function asked(button) {
  const { name, state = '' } = /** @type {HTMLElement | null} */ (button.closest('.power'))?.dataset ?? {}
  if (!name) return button.dataset.confirm ?? ''
  const up = (button.closest('li') ?? document).querySelector('time[data-up]')?.textContent
  return `${name} is ${state}${up ? `, ${up}` : ''}.\n\n${button.dataset.confirm}`
}

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

/*
 * A page that is seen asks for one thing at a time, and one that is hidden for nothing: a browser has six connections for
 * all of its windows.
 */
/** @type {{act: () => Promise<number>, next: number, read: number}[]} */
const looks = []
/** @type {typeof looks[0] | undefined} */
let looking
let wake = () => {}

/**
 * `act` is done again and again, each time after the milliseconds that it returned. What it shows was read with the page.
 * @param {() => Promise<number>} act
 */
function look(act) {
  const asOf = /** @type {HTMLTimeElement | null} */ (document.querySelector('time[data-asof]'))
  looks.push({ act, next: 0, read: asOf ? Date.parse(asOf.dateTime) : Date.now() })
}

/** Look again at once. */
function hurry() {
  for (const one of looks) one.next = 0
  wake()
}

async function live() {
  for (;;) {
    const busy = document.hidden || document.querySelector('[aria-busy="true"]:not(.drop *)')
    const due = busy ? undefined : looks.find((one) => one.next <= Date.now())
    looking = due
    if (due) due.next = Date.now() + (await due.act().catch(() => WATCH_EVERY))
    else await new Promise((done) => { wake = () => done(undefined); setTimeout(done, QUICK / 2) })
  }
}
document.addEventListener('visibilitychange', () => {
  lastAnswer = Math.max(lastAnswer, Date.now() - WATCH_EVERY)
  hurry()
})
queueMicrotask(() => looks.length && void live())

const ANSWER_WITHIN = 4000
const SILENT_AFTER = 5000
let lastAnswer = Date.now()

/**
 * The answer, or null when there is none; a session that is over is the business of `<oidc-context>`.
 * @param {string} url
 */
async function ask(url) {
  const headers = { Accept: 'application/json' }
  const answer = await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_WITHIN) }).catch(() => null)
  if (answer && answer.status < 500) answered()
  if (answer?.status === 401) void /** @type {any} */ (document.querySelector('oidc-context')).revalidate?.()
  return answer?.ok ? answer : null
}

function answered() {
  lastAnswer = Date.now()
  document.querySelector('#silent')?.remove()
  delete document.body.dataset.silent
}

/** The page says as of when all of it is true: the part that was read longest ago counts. */
function drawn() {
  if (looking) looking.read = Date.now()
  const moment = new Date(Math.min(...looks.map(({ read }) => read)))
  for (const time of document.querySelectorAll('time[data-asof]')) {
    time.setAttribute('datetime', moment.toISOString())
    localise(time)
  }
}

/** What is shown may be untrue as soon as the console stops responding. */
function tellSilence() {
  if (!looks.length || document.hidden || Date.now() - lastAnswer < SILENT_AFTER) return
  document.body.dataset.silent = 'true'
  const seconds = Math.round((Date.now() - lastAnswer) / 1000)
  const text = `The console has not responded for ${seconds} s. What you see is as old.`
  const told = document.querySelector('#silent') ?? tell(text)
  told.id = 'silent'
  told.textContent = text
}
setInterval(tellSilence, 1000)

/**
 * Replaces what has changed of a part, row by row; a row with focus is replaced too, and its button has the focus again.
 * @param {Element} part
 * @param {string} html
 */
function replace(part, html) {
  const fresh = document.createElement(part.tagName)
  fresh.innerHTML = html
  const focused = part.contains(document.activeElement) ? document.activeElement : null
  const { action = '', href = '' } = /** @type {any} */ (focused?.closest('form') ?? focused ?? {})
  const rows = [...fresh.children]
  rows.forEach((row, at) => {
    const old = part.children[at]
    if (!old) part.append(row)
    else if (comparable(old) !== comparable(row)) old.replaceWith(row)
  })
  while (part.children.length > rows.length) part.lastElementChild?.remove()
  for (const time of part.querySelectorAll('time[data-clock]')) localise(time)
  if (focused && !focused.isConnected) {
    const found = [...part.querySelectorAll('a, button')].find((one) => (/** @type {any} */ (one.closest('form') ?? one)[action ? 'action' : 'href']) === (action || href))
    if (found instanceof HTMLElement) found.focus()
  }
  drawn()
}

/**
 * A row without what differs in every response: the state that its forms carry has the time of the page.
 * @param {Element} row
 */
function comparable(row) {
  const copy = /** @type {Element} */ (row.cloneNode(true))
  for (const input of copy.querySelectorAll('input[name="page"]')) input.setAttribute('value', (input.getAttribute('value') ?? '').split('|').slice(0, 2).join('|'))
  for (const time of copy.querySelectorAll('time')) time.replaceChildren()
  return copy.outerHTML
}

for (const part of document.querySelectorAll('[data-refresh]')) {
  const url = part.getAttribute('data-refresh') ?? ''
  look(async () => {
    const answer = await ask(url)
    const html = await answer?.text()
    if (html !== undefined) replace(part, html)
    return WATCH_EVERY
  })
}

/* Of the list, only what has changed since `at` is sent. */
for (const list of document.querySelectorAll('[data-list]')) {
  let { list: url = '', at = '' } = /** @type {HTMLElement} */ (list).dataset
  look(async () => {
    const answer = await ask(`${url}&at=${at}`)
    if (!answer) return WATCH_EVERY
    const found = await answer.json()
    at = arrange(list, found) ? found.at : ''
    drawn()
    return WATCH_EVERY
  })
}

/**
 * Puts the rows in order, with those that are new; whether all are there.
 * @param {Element} list
 * @param {{order: string[], rows: Record<string, string>, figures: Record<string, string>}} found
 */
function arrange(list, { order, rows, figures }) {
  const known = new Map([...list.children].map((row) => [/** @type {HTMLElement} */ (row).dataset.key, row]))
  order.forEach((key, place) => {
    const row = key in rows ? renewed(known.get(key), rows[key]) : known.get(key)
    if (!row) return
    known.delete(key)
    if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null)
    const told = row.querySelector('.figures')
    if (told && key in figures) told.textContent = figures[key]
  })
  for (const row of known.values()) row.remove()
  return list.children.length === order.length
}

/**
 * A row as it is now; what is chosen in it stays chosen, and its button has the focus again.
 * @param {Element | undefined} old
 * @param {string} html
 */
function renewed(old, html) {
  const made = document.createElement('ul')
  made.innerHTML = html
  const row = /** @type {Element} */ (made.firstElementChild)
  const [before, now] = [old, row].map((one) => /** @type {HTMLInputElement | null | undefined} */ (one?.querySelector('input[type="checkbox"]')))
  if (before && now) now.checked = before.checked
  const focused = old?.contains(document.activeElement) ? document.activeElement : null
  const { formAction = '', href = '' } = /** @type {any} */ (focused ?? {})
  old?.replaceWith(row)
  const found = focused && [...row.querySelectorAll('a, button, input')].find((one) => {
    const { formAction: action = '', href: to = '' } = /** @type {any} */ (one)
    return one.tagName === focused.tagName && action === formAction && to === href
  })
  if (found instanceof HTMLElement) found.focus()
  return row
}

for (const machine of document.querySelectorAll('[data-watch]')) {
  const { page = '/', watch = '', shown = '' } = /** @type {HTMLElement} */ (machine).dataset
  // A reload shows the machine, without the message of a change and without repeating it.
  if (location.pathname + location.search !== page) history.replaceState(null, '', page)
  let typed = false
  let told = false
  machine.addEventListener('input', ({ target }) => (typed ||= isKept(/** @type {Element} */ (target))))
  look(async () => {
    const answer = await ask(watch)
    if (told || !answer) return WATCH_EVERY
    if ((await answer.json()).shown === shown) {
      drawn()
      return WATCH_EVERY
    }
    if (!typed) location.assign(page)
    else tell('The machine has changed meanwhile. Reload the page to see it; what you typed will be lost.')
    told = true
    return WATCH_EVERY
  })
}

/**
 * Whether what is typed there is a draft: what is typed for a guest may be a password.
 * @param {Element} input
 */
function isKept(input) {
  return !input.closest('form[data-typing], .terminal')
}

/** @param {string} text */
function tell(text) {
  const notice = document.createElement('p')
  notice.className = 'notice bad'
  notice.role = 'alert'
  notice.textContent = text
  document.querySelector('.head')?.after(notice)
  return notice
}

const QUICK = 100

for (const form of document.querySelectorAll('form[data-typing]')) {
  const typing = /** @type {HTMLFormElement} */ (form)

  /** @param {URLSearchParams} body */
  async function post(body) {
    const headers = { Accept: 'application/json' }
    const answer = await fetch(typing.action, { method: 'POST', body, headers }).catch(() => null)
    if (!answer?.ok) {
      const { refused = '' } = (await answer?.json().catch(() => null)) ?? {}
      tell(refused || 'The guest did not get this.')
    }
    hurry()
    return answer?.ok ?? false
  }

  typing.addEventListener('submit', async (event) => {
    event.preventDefault()
    const { submitter } = /** @type {SubmitEvent} */ (event)
    const line = /** @type {HTMLInputElement} */ (typing.elements.namedItem('line'))
    if (await post(new URLSearchParams(/** @type {any} */ (new FormData(typing, submitter))))) line.value = ''
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
  const inputs = [...document.querySelectorAll('main form :is(input[id], textarea[id], select[id])')]
  return inputs.filter(isKept).map((input) => /** @type {any} */ (input))
}

if (user) {
  const draft = drafts()
  const isSaved = document.querySelector('[role="status"]') !== null
  if (draft && (draft.user !== user || draft.place === place || isSaved)) sessionStorage.removeItem(DRAFTS)
  if (draft?.user === user && draft.place === place && !isSaved && !document.querySelector('[aria-invalid="true"]')) {
    fillIn(draft.texts)
  }
  addEventListener('input', ({ target }) => {
    if (!(target instanceof Element) || !isKept(target)) return
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

/* A page that is loaded anew has the same folds open, and the same place in focus. */
const FOLDS = 'folds'

/* A page of a machine that is busy has fewer folds than the next one. */
function rememberFolds() {
  const { place: before, open: known = [] } = JSON.parse(sessionStorage.getItem(FOLDS) ?? '{}')
  const absent = before === place ? known.filter((/** @type {string} */ id) => !document.getElementById(id)) : []
  const shown = [...document.querySelectorAll('main details[id][open]')].map((fold) => fold.id)
  const open = [...absent, ...shown]
  sessionStorage.setItem(FOLDS, JSON.stringify({ place, open, focus: document.activeElement?.id ?? '', at: scrollY }))
}

function restoreFolds() {
  const { place: before, open, focus, at } = JSON.parse(sessionStorage.getItem(FOLDS) ?? '{}')
  if (before !== place) return
  for (const id of open) document.getElementById(id)?.setAttribute('open', '')
  if (document.querySelector('[aria-invalid="true"]')) return
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true })
  scrollTo(0, at)
}
restoreFolds()
addEventListener('pagehide', rememberFolds)

/* A file that is dropped on a form is the one that was chosen. */
for (const form of document.querySelectorAll('form.drop')) {
  const input = /** @type {HTMLInputElement | null} */ (form.querySelector('input[type="file"]'))
  if (!input) continue
  form.addEventListener('dragover', (event) => event.preventDefault())
  form.addEventListener('drop', (event) => {
    event.preventDefault()
    const files = /** @type {DragEvent} */ (event).dataTransfer?.files
    if (files?.length) input.files = files
  })
}
