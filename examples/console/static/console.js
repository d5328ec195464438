// @ts-check
/** The console without this script works too; with it, times are local, buttons tell what they do, states are live. */

const WATCH_EVERY = 2000

for (const time of document.querySelectorAll('time[data-clock]')) {
  const moment = new Date(/** @type {HTMLTimeElement} */ (time).dateTime)
  time.textContent = moment.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
}

document.addEventListener('submit', (event) => {
  const button = /** @type {SubmitEvent} */ (event).submitter
  if (!(button instanceof HTMLButtonElement) || !button.dataset.working) return
  if (button.ariaBusy === 'true') return event.preventDefault()
  button.ariaBusy = 'true'
  button.textContent = button.dataset.working
})

// A page that comes back from the browser's memory shows what was, not what is.
window.addEventListener('pageshow', (event) => event.persisted && location.reload())

const machine = /** @type {HTMLElement | null} */ (document.querySelector('[data-watch]'))
if (machine) watch(machine)

/** @param {HTMLElement} machine */
function watch(machine) {
  const rendered = machine.dataset.rendered ?? ''
  let typed = false
  machine.addEventListener('input', () => (typed = true))
  const timer = setInterval(async () => {
    if (document.hidden || machine.querySelector('[aria-busy="true"]')) return
    const answer = await fetch(machine.dataset.watch ?? '', { headers: { Accept: 'application/json' } }).catch(() => null)
    if (answer?.status === 401) return location.reload()
    if (!answer?.ok) return
    const { state } = await answer.json()
    if ((state ?? '') === rendered) return
    clearInterval(timer)
    if (typed) tell('The machine has changed meanwhile. Reload the page to see it; what you typed will be lost.')
    else location.assign(machine.dataset.page ?? '/')
  }, WATCH_EVERY)
}

/** @param {string} text */
function tell(text) {
  const notice = document.createElement('p')
  notice.className = 'notice bad'
  notice.role = 'alert'
  notice.textContent = text
  document.querySelector('.head')?.after(notice)
}
