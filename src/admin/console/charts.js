// Two charts of one hour, from samples that the page takes while it is open. Plain SVG.

const HOUR = 3_600_000;
const WIDTH = 720, HEIGHT = 100;
// A sample stands for this long; a longer gap (the page was hidden, the warden gone) is shown as a gap.
const GAP = 90_000;

/** Oldest first. */
export const samples = [];

/** Takes a sample of `/v1/admin/breaker`. */
export function sample(view, now = Date.now()) {
  samples.push({ at: now, backlog: view.backlog, create: view.create.state, delete: view.delete.state });
  while (samples.length > 0 && samples[0].at < now - HOUR) samples.shift();
}

const x = (at, now) => Math.max(0, Math.round(10 * WIDTH * (1 - (now - at) / HOUR)) / 10);

function shape(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function fill(svg, ...shapes) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...shapes);
}

/** Until when a sample holds: the next one's time, unless that is too far off. */
const until = (at, index, now) => Math.min(samples[index + 1]?.at ?? now, at + GAP);

export function drawBacklog(svg, now = Date.now()) {
  const most = Math.max(4, ...samples.map((one) => one.backlog));
  const y = (backlog) => HEIGHT - 2 - ((HEIGHT - 8) * backlog) / most;
  let line = "", area = "";
  samples.forEach((one, index) => {
    const [from, to] = [x(one.at, now), x(until(one.at, index, now), now)];
    const joins = index > 0 && one.at - samples[index - 1].at <= GAP;
    line += `${joins ? "L" : "M"}${from} ${y(one.backlog)}L${to} ${y(one.backlog)}`;
    area += `M${from} ${HEIGHT}V${y(one.backlog)}H${to}V${HEIGHT}Z`;
  });
  fill(svg, shape("path", { class: "area", d: area }), shape("path", { class: "line", d: line }));
}

export function drawBreakers(svg, now = Date.now()) {
  const bands = ["create", "delete"].flatMap((name, row) => runs(name, now).map(({ state, from, to }) =>
    shape("rect", { class: state, x: from, y: row * 52 + 2, width: Math.max(1, to - from), height: 44 })));
  fill(svg, ...bands);
}

/** Neighbouring samples of one state are one band. */
function runs(name, now) {
  const found = [];
  samples.forEach((one, index) => {
    const [from, to] = [x(one.at, now), x(until(one.at, index, now), now)];
    const last = found.at(-1);
    if (last && last.state === one[name] && from - last.to < 1) last.to = to;
    else found.push({ state: one[name], from, to });
  });
  return found;
}

/** Since when there are samples, in words. */
export const sampledFor = (now = Date.now()) => {
  const minutes = samples.length === 0 ? 0 : Math.floor((now - samples[0].at) / 60_000);
  return minutes >= 59 ? "" : `This page takes its own samples while it is open, for ${minutes} min so far; the metrics have the rest.`;
};
