// What the warden answers, as elements. Each function takes an answer and fills its place; none asks for anything.

import { byId, make, number, plain, said, when } from "./dom.js";

/** `/readyz` in one line. */
export function standing(ready) {
  const parts = [
    [ready.ready ? "ready" : ready.draining ? "draining" : "not ready", ready.ready ? "good" : "bad"],
    [`ledger ${ready.ledger.up ? ready.ledger.state : "unreachable"}`, ready.ledger.up && ready.ledger.state === "sound" ? "" : "bad"],
    [`${ready.upstream.name} ${ready.upstream.up ? "answers" : "does not answer"}`, ready.upstream.up ? "" : "bad"],
  ];
  if (ready.limits && !ready.limits.agree) parts.push(["wardens disagree about limits", "bad"]);
  if (ready.corrupt_records > 0) parts.push([`${number(ready.corrupt_records)} unreadable records`, "bad"]);
  byId("standing").replaceChildren(...parts.flatMap(([text, className], index) =>
    [index > 0 ? " · " : "", said(text, "span", className)]));
}

/** `/v1/admin/buckets`: a bar for each bucket that has a name, one for the others, one for all. */
export function buckets(answer) {
  const rows = answer.buckets.map((one) => ({ ...one, name: `${one.namespace}/${one.env}` }));
  if (answer.other.held > 0) rows.push({ ...answer.other, name: "other buckets", limit: null });
  if (rows.length > 1 || answer.all.limit) rows.push({ ...answer.all, name: "all" });
  byId("buckets").replaceChildren(...rows.map(bar));
}

function bar(one) {
  const { live, reserved, dispatched, ambiguous, killing, quarantined } = one.entries;
  const whole = Math.max(one.limit ?? one.held, one.held, 1);
  const part = (count, className) => {
    const piece = make("i", className);
    piece.style.width = `${(100 * count) / whole}%`;
    return count > 0 ? piece : null;
  };
  const pieces = [part(live, "live"), part(reserved + dispatched, "going"), part(ambiguous + killing, "doubtful"),
    part(quarantined, "quarantined")];
  const held = one.limit === null ? `${number(one.held)}, no limit` : `${number(one.held)} of ${number(one.limit)}`;
  const details = [`${number(live)} live`, [reserved + dispatched, "starting"], [ambiguous, "ambiguous"], [killing, "killing"],
    [quarantined, "quarantined"], [one.paused, "paused"], [one.waiting, "waiting"]]
    .map((detail) => (Array.isArray(detail) ? detail[0] > 0 && `${number(detail[0])} ${detail[1]}` : detail)).filter(Boolean);
  const full = one.limit !== null && one.held >= one.limit;
  const row = make("li", full ? "full" : one.limit === null ? "unlimited" : "",
    make("div", "head", said(one.name, "span", "name"), make("span", full ? "bad" : "", held)),
    make("div", "bar", ...pieces), make("div", "soft", details.join(" · ")));
  row.dataset.bucket = one.name;
  return row;
}

/** `/v1/admin/breaker` in one line. */
export function writePath(view) {
  const breaker = (name, one) => make("span", { closed: "good", open: "bad" }[one.state] ?? "warn", `${name} ${one.state}`);
  const lanes = Object.entries(view.lanes).map(([name, lane]) => `${name} ${number(lane.in_flight)}` +
    (lane.waiting > 0 ? ` (+${number(lane.waiting)} waiting)` : ""));
  byId("write-path").replaceChildren("Breakers: ", breaker("creates", view.create), ", ", breaker("deletes", view.delete),
    ` · at Cube: ${lanes.join(", ")} of ${number(view.limit)}`, view.recovering ? " · recovering" : "");
  byId("backlog-now").textContent = `now ${number(view.backlog)}`;
}

/** `/v1/admin/collector` and `/v1/admin/plan`. */
export function collector(state, plan) {
  const colours = Object.entries(state.found?.colours ?? {}).map(([name, count]) => `${name} ${plain(count)}`);
  const line = [`cycle ${state.cycle ?? "none"}`, state.last_cycle && when(state.last_cycle),
    state.found?.verdict && `listing ${plain(state.found.verdict)}`, ...colours,
    state.carried_out === false && "decides only, ends nothing"];
  byId("collector").replaceChildren(said(line.filter(Boolean).join(" · ")));
  const ends = plan.ends;
  byId("plan").replaceChildren(...ends.slice(0, 20).map((end) =>
    make("li", "", make("span", "chip white", "white"), " ", said(end.sandbox_id, "span", "name"), " ", said(end.reason))));
  if (ends.length > 20) byId("plan").append(make("li", "soft", `and ${number(ends.length - 20)} more`));
}

/** A page of `/v1/admin/sandboxes`; `open` is called with the name of the one that was clicked. */
export function sandboxes(answer, open) {
  const now = Date.now();
  byId("sandboxes").tBodies[0].replaceChildren(...answer.sandboxes.map((one) => row(one, now, open)));
}

function row(one, now, open) {
  const name = one.sandbox_id ?? one.marker;
  const button = said(name, "button", "name");
  button.type = "button";
  button.addEventListener("click", () => open(name));
  const cell = (title, content) => {
    const cell = make("td", ["state", "colour", "last sign", "ends"].includes(title) ? "short" : "", content);
    if (title) cell.dataset.name = title;
    return cell;
  };
  const state = one.paused_since ? `${one.state}, paused` : one.state;
  return make("tr", "", cell("", button), cell("", said(one.owner_id, "span", "name")), cell("bucket", said(one.bucket)),
    cell("state", said(state, "span", one.state === "quarantined" ? "bad" : "")),
    cell("colour", said(one.colour, "span", `chip ${["black", "grey", "white"].includes(one.colour) ? one.colour : ""}`)),
    cell("why", said(one.reason)), cell("last sign", when(one.last_sign_at, now)), cell("ends", when(one.deadline, now) || "never"));
}

/** Decisions, newest first. */
export function decisions(records, open) {
  byId("decisions").replaceChildren(...records.map((record) => decision(record, open)));
}

const TOLD = ["sequence", "at", "decision", "reason", "sandbox_id", "marker", "bucket", "owner_id"];

function decision(record, open) {
  const about = record.sandbox_id ?? record.marker;
  const line = make("li", "", make("span", "soft", when(record.at)),
    said(record.decision, "b", record.decision === "refused" ? "warn" : ""), said(record.reason));
  if (about && open) {
    const button = said(about, "button", "name");
    button.type = "button";
    button.addEventListener("click", () => open(about));
    line.append(button);
  }
  for (const name of ["owner_id", "bucket"]) if (record[name]) line.append(said(record[name], "span", "soft"));
  const rest = Object.entries(record).filter(([name]) => !TOLD.includes(name));
  if (rest.length > 0) line.append(said(rest.map(([name, value]) => `${name}=${plain(value)}`).join(" "), "span", "soft"));
  return line;
}

/** `/v1/admin/explain/{name}`. */
export function explanation(name, answer) {
  byId("explain-title").replaceChildren(said(name));
  const parts = [];
  if (answer === null) parts.push(make("p", "", "The ledger knows nothing of that name (any more)."));
  // Its lines are the warden's own; what a client wrote stands in them, so what is unseen is spelled out line by line.
  if (typeof answer?.text === "string") parts.push(make("pre", "", ...answer.text.split("\n").flatMap((line) => [said(line), "\n"])));
  if (answer?.sandbox) parts.push(fields(answer.sandbox));
  if (answer?.decisions?.length > 0) {
    parts.push(make("h2", "", "Decided about it"), make("ol", "", ...answer.decisions.map((record) => decision(record)).reverse()));
  }
  byId("explanation").replaceChildren(...parts);
}

function fields(sandbox) {
  const list = make("dl", "");
  for (const [name, value] of Object.entries(sandbox)) {
    if (value === null || value?.length === 0) continue;
    if (name === "metadata" && typeof value === "object") {
      for (const [key, text] of Object.entries(value)) list.append(said(`metadata ${key}`, "dt"), said(plain(text), "dd"));
    } else {
      list.append(said(name, "dt"), said(plain(value), "dd"));
    }
  }
  return list;
}
