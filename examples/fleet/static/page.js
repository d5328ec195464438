// Asks the fleet each second and shows who answered. Every request may reach another worker.

const EVERY = 1000;
const AT_ONCE = 4;
const PATIENCE = 15000;
const LATE = 5000;
const NEWS_KEPT = 30;

const workers = new Map();
let sessionBefore = "";
let redisBefore = "";

const element = (name, text, className = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
};

const tell = (text) => {
  const news = document.getElementById("news");
  const time = new Date().toLocaleTimeString();
  news.prepend(element("li", `${time} ${text}`));
  while (news.children.length > NEWS_KEPT) news.lastChild.remove();
};

// The JSON and who gave it; without an answer the status is 0.
const asked = async (path) => {
  try {
    const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
    const isJson = (answer.headers.get("Content-Type") ?? "").startsWith("application/json");
    return {
      status: answer.status,
      worker: answer.headers.get("X-Worker"),
      later: answer.headers.get("Retry-After"),
      body: isJson ? await answer.json() : {},
    };
  } catch {
    return { status: 0, worker: null, later: null, body: {} };
  }
};

const note = (health) => {
  if (health.status !== 200) return;
  const { worker, pid, redis_milliseconds: redis } = health.body;
  const known = workers.get(worker);
  if (!known) tell(`worker ${worker} answers (process ${pid})`);
  else if (known.pid !== pid) tell(`worker ${worker} was started again (process ${pid})`);
  workers.set(worker, { pid, redis, count: (known?.count ?? 0) + 1, at: Date.now() });
  const redisNow = redis === null ? "Redis does not answer" : "Redis answers";
  if (redisNow !== redisBefore) tell(redisNow);
  redisBefore = redisNow;
};

const ago = (at) => `${((Date.now() - at) / 1000).toFixed(0)} s ago`;

const showWorkers = () => {
  const rows = [...workers].sort(([one], [other]) => one.localeCompare(other));
  document.getElementById("workers").replaceChildren(...rows.map(([name, worker]) => {
    const row = element("tr", "", Date.now() - worker.at > LATE ? "late" : "");
    const isDown = worker.redis === null;
    row.append(
      element("td", name),
      element("td", worker.pid),
      element("td", `${worker.count} times`),
      element("td", ago(worker.at)),
      element("td", isDown ? "does not answer" : `${worker.redis} ms`, isDown ? "bad" : ""),
    );
    return row;
  }));
};

const told = ({ status, later }) => {
  if (status === 401) return "Nobody is signed in.";
  if (status === 0) return "No answer: nginx is away.";
  const when = later ? `, again after ${later} s` : "";
  return `No session can be read: ${status}${when}.`;
};

const factsOf = (session) => {
  const seconds = Math.round(session.access_token_expires_at - Date.now() / 1000);
  return {
    "Signed in": `${session.name} (${session.sub})`,
    "Session": session.id,
    "Refreshed": `${session.generation} times`,
    "Access token": `good for ${seconds} s, then refreshed by whoever is asked`,
    "Ends": new Date(session.expires_at * 1000).toLocaleTimeString(),
    "Answered by": `worker ${session.worker}`,
  };
};

const showSession = (answer) => {
  const isThere = answer.status === 200;
  document.getElementById("sign-in").hidden = isThere;
  const facts = isThere ? factsOf(answer.body) : { "Session": told(answer) };
  const terms = Object.entries(facts).flatMap(([term, text]) => [
    element("dt", term),
    element("dd", text, isThere || answer.status === 401 ? "" : "bad"),
  ]);
  document.getElementById("session").replaceChildren(...terms);
  const now = isThere
    ? `session of ${answer.body.sub}, refreshed ${answer.body.generation} times`
    : told(answer);
  if (now !== sessionBefore) tell(now);
  sessionBefore = now;
};

const look = async () => {
  const health = Array.from({ length: AT_ONCE }, () => asked("/fleet/health"));
  showSession(await asked("/whoami"));
  (await Promise.all(health)).forEach(note);
  showWorkers();
};

const forever = async () => {
  for (;;) {
    await look();
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
};

forever();
