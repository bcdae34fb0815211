// The page: what is asked when, and what a click does.
//
// Must stay true: it only reads, so everything it can break is itself. Deliberately absent: anything that outlives the page.

import { Unauthenticated, ask, poll, show } from "./api.js";
import * as charts from "./charts.js";
import { byId, number, visible } from "./dom.js";
import * as views from "./views.js";

// As many rows as a phone draws without a pause.
const PAGE = 100;
const DECISIONS = 50;

// ---------------------------------------------------------------- trouble and tokens

const troubles = new Map();

function told(part) {
  return (error, wait) => {
    if (error instanceof Unauthenticated) return lock();
    if (error === null) troubles.delete(part);
    else troubles.set(part, `${part}: ${error.message}; asked again in ${Math.ceil(wait / 1000)} s`);
    byId("trouble").hidden = troubles.size === 0;
    byId("trouble").textContent = visible(`What is shown may be old. ${[...troubles.values()].join(" · ")}`);
  };
}

let tried = false;

function lock() {
  byId("explain").close();
  byId("main").hidden = true;
  byId("login").hidden = false;
  byId("standing").textContent = tried ? "that token is not the right one" : "a token is asked for";
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  show(byId("token").value);
  byId("token").value = "";
  tried = true;
  refresh();
});

// ---------------------------------------------------------------- the parts

const unlocked = () => { byId("main").hidden = false; byId("login").hidden = true; };

const overview = poll(2000, async () => {
  const [ready, buckets, view] = await Promise.all([ask("readyz"), ask("v1/admin/buckets"), ask("v1/admin/breaker")]);
  unlocked();
  views.standing(ready);
  views.buckets(buckets);
  views.writePath(view);
  charts.sample(view);
  charts.drawBacklog(byId("backlog-chart"));
  charts.drawBreakers(byId("breaker-chart"));
  byId("sampled").textContent = charts.sampledFor();
}, told("overview"));

const collector = poll(5000, async () => {
  const [state, plan] = await Promise.all([ask("v1/admin/collector"), ask("v1/admin/plan")]);
  views.collector(state, plan);
}, told("collector"));

// Where each page begins, up to the one that is shown.
let starts = [""];
let following = null;
let asked = 0;

const sandboxes = poll(3000, async () => {
  const question = (asked += 1);
  const query = new URLSearchParams({ limit: PAGE });
  const wanted = { search: byId("search").value.trim(), state: byId("state").value, after: starts.at(-1) };
  for (const [name, value] of Object.entries(wanted)) if (value) query.set(name, value);
  const answer = await ask(`v1/admin/sandboxes?${query}`);
  // Meanwhile something else was asked for.
  if (question !== asked) return;
  following = answer.next_after;
  views.sandboxes(answer, explain);
  const first = (starts.length - 1) * PAGE;
  const shown = answer.sandboxes.length;
  byId("page").textContent = shown === 0 ? "none" : `${number(first + 1)} to ${number(first + shown)}${following ? " and more" : ""}`;
  byId("back").disabled = starts.length < 2;
  byId("next").disabled = following === null;
}, told("sandboxes"));

function turn(to) {
  starts = to;
  asked += 1;
  sandboxes();
}

let typing;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => turn([""]), 250);
});
byId("filter").addEventListener("submit", (event) => { event.preventDefault(); turn([""]); });
byId("state").addEventListener("change", () => turn([""]));
byId("back").addEventListener("click", () => turn(starts.slice(0, -1)));
byId("next").addEventListener("click", () => { if (following) turn([...starts, following]); });

let cursor = null;
let records = [];

const decisions = poll(3000, async () => {
  for (let more = true; more;) {
    const part = cursor === null ? `newest=true&limit=${DECISIONS}` : `after=${cursor}&limit=1000`;
    const answer = await ask(`v1/admin/decisions?${part}`);
    more = cursor !== null && answer.next_after !== null;
    records = [...answer.decisions.reverse(), ...records].slice(0, DECISIONS);
    cursor = Math.max(cursor ?? 0, records[0]?.sequence ?? 0, answer.next_after ?? 0);
  }
  views.decisions(records, explain);
}, told("decisions"));

async function explain(name) {
  try {
    views.explanation(name, await ask(`v1/admin/explain/${encodeURIComponent(name)}`));
    if (!byId("explain").open) byId("explain").showModal();
  } catch (error) {
    told("explain")(error, 0);
  }
}

function refresh() {
  for (const part of [overview, collector, sandboxes, decisions]) part();
}

refresh();
