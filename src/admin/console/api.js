// Asking the warden, again and again.
//
// Must stay true: everything asked for is a GET; the token lives in this module's memory and nowhere else; a warden that
// is slow or gone is asked less often, never more.

let token = null;

export class Unauthenticated extends Error {}

/** Forgets the old token, and remembers the new one until the page is closed. */
export const show = (text) => { token = text; };

/** One answer as JSON; `null` for what is not there (404). Other failures are thrown, in words. */
export async function ask(path, signal = AbortSignal.timeout(30_000)) {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (answer.status === 401) throw new Unauthenticated();
  if (answer.status === 404) return null;
  const body = await answer.json();
  // Not ready is an answer, too.
  if (answer.ok || "ready" in body) return body;
  throw Object.assign(new Error(body.message ?? `answer ${answer.status}`), { status: answer.status });
}

const LONGEST = 60_000;

/**
 * Runs `work` every `usual` ms while the page is seen: later if it is slow (it takes a tenth of the time at most), twice as
 * late with each failure in a row, and not at all without a token that is asked for. `told` hears of each outcome: `null`,
 * or the error and when it is tried again. Returns what asks at once.
 */
export function poll(usual, work, told) {
  let timer;
  let running = false;
  let again = false;
  let failures = 0;
  const run = async () => {
    if (running) { again = true; return; }
    clearTimeout(timer);
    if (document.hidden) return;
    running = true;
    const began = performance.now();
    let wait = usual;
    try {
      await work();
      failures = 0;
      wait = Math.max(usual, 9 * (performance.now() - began));
      told(null);
    } catch (error) {
      failures += 1;
      wait = error instanceof Unauthenticated ? Infinity : Math.min(LONGEST, usual * 2 ** failures);
      told(error, wait);
    }
    running = false;
    if (again || wait < Infinity) timer = setTimeout(run, again ? 0 : Math.min(wait, LONGEST));
    again = false;
  };
  document.addEventListener("visibilitychange", run);
  return run;
}
