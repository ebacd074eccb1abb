/* A fault tree: its text, the probability of its top event, the picture with its gates, events and cut sets. */

import { send } from "./api.js";
import { announce, attempt, byId, el, failures, shortened, styled, svg } from "./dom.js";
import { bar, plural, probability, promiseOf, showCount, showGiven, showProb } from "./numbers.js";
import { strength } from "./network.js";
import { recall, remember, rememberFields } from "./remember.js";

const STEP_X = 102, STEP_Y = 104, MARGIN = 16, LABEL = 94;
const LEAST = 0.72; // a picture that would have to be drawn smaller than this scrolls
const MOST_NODES = 250; // a larger picture could not be read
const fail = failures("tree-error");

export function startFaultTree() {
  rememberFields(...["tree-text", "tree-format", "mission-time"].map(byId));
  byId("tree-run").addEventListener("click", count);
  byId("view-faulttree").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) count();
  });
  const kept = recall("faulttree");
  if (kept) show(kept);
}

/** Fills in a fault tree and counts it. */
export async function openFaultTree({ text, format }) {
  for (const [id, value] of [["tree-text", text], ["tree-format", format]]) {
    byId(id).value = value;
    byId(id).dispatchEvent(new Event("change"));
  }
  await count();
}

async function count() {
  byId("tree-run").setAttribute("aria-busy", "true");
  await attempt(async () => {
    const text = byId("tree-text").value;
    if (!text.trim()) throw new Error("Paste the text of a fault tree, open its file, or look at the story.");
    const asked = { text, format: byId("tree-format").value };
    const time = parseFloat(byId("mission-time").value);
    if (Number.isFinite(time)) asked.mission_time = time;
    const said = await send("POST", "/api/faulttree", asked);
    show(said);
    remember("faulttree", said);
  }, fail);
  byId("tree-run").setAttribute("aria-busy", "false");
}

function show(said) {
  byId("tree-answer").hidden = false;
  byId("tree-empty").hidden = true;
  byId("tree-more").hidden = false;
  byId("tree-answer-title").textContent = `${said.top} happens`;
  byId("tree-said").replaceChildren(probability(said.prob, said.low, said.high), el("p", { class: "muted" }, `${oneIn(said.prob)}${promiseOf(said)} ${(said.notes ?? []).join(" ")}`));
  const place = byId("tree-picture");
  place.replaceChildren(picture(said, place.clientWidth - 2));
  place.scrollLeft = (place.scrollWidth - place.clientWidth) / 2; // the top stands near the middle
  drawEvents(said.events ?? []);
  drawCuts(said.cut_sets ?? [], said.cut_sets_total ?? 0);
  announce(`${said.top}: probability ${showProb(said.prob)}`);
}

/** A small probability as people say it. */
const oneIn = (p) => (p > 0 && p < 0.02 ? `About once in ${showCount(Number((1 / p).toPrecision(3)))} times. ` : "");

/** A drawing in layers: the top event first, every gate above all that it reads; what several gates read stands once. */
function picture(said, available) {
  const gates = new Map((said.gates ?? []).map((gate) => [gate.name, gate]));
  if (!gates.size) return el("p", { class: "muted" }, "Cut sets alone have no gates to draw.");
  const inputs = (name) => gates.get(name)?.inputs ?? [];
  const depth = depths(said.top, inputs);
  if (depth.size > MOST_NODES) return el("p", { class: "muted" }, `A picture of ${plural(depth.size, "gate and event", "gates and events")} could not be read: the tables have them all.`);
  const { place, columns, owner } = layOut(said.top, inputs, depth);
  const width = 2 * MARGIN + STEP_X * columns, height = 2 * MARGIN + STEP_Y * (Math.max(...depth.values()) + 1) - 24;
  const events = new Map((said.events ?? []).map((event) => [event.name, event]));
  const most = Math.max(...[...events.values()].map(weight), 0);
  const lines = [...depth.keys()].flatMap((name) => inputs(name).map((input) => wire(place.get(name), place.get(input), owner.get(input) === name)));
  const nodes = [...depth.keys()].map((name) => (gates.has(name) ? gateMark(gates.get(name), place.get(name)) : eventMark(name, events.get(name), place.get(name), most)));
  const scale = Math.max(LEAST, Math.min(1, available / width));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width: width * scale, height: height * scale, class: "tree", role: "img",
    "aria-label": `Fault tree of ${plural(gates.size, "gate")} and ${plural(events.size, "event")}; the tables below list them` }, lines, nodes);
}

const weight = (event) => Math.max(event?.criticality ?? event?.birnbaum ?? 0, 0);

/** How many gates lie between the top and each node at most; found by going through the nodes in an order of their gates. */
function depths(top, inputs) {
  const order = [], seen = new Set();
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    inputs(name).forEach(visit);
    order.push(name);
  };
  visit(top);
  const depth = new Map([[top, 0]]);
  for (const name of order.reverse()) {
    for (const input of inputs(name)) depth.set(input, Math.max(depth.get(input) ?? 0, depth.get(name) + 1));
  }
  return depth;
}

/** A place for every node: those at the bottom side by side, each gate over the middle of what it is the first to read. */
function layOut(top, inputs, depth) {
  const column = new Map(), owner = new Map();
  let next = 0;
  const visit = (name) => {
    if (column.has(name)) return;
    column.set(name, 0);
    const fresh = [...new Set(inputs(name))].filter((input) => !owner.has(input));
    fresh.forEach((input) => owner.set(input, name));
    fresh.forEach(visit);
    const below = fresh.map((input) => column.get(input));
    column.set(name, below.length ? below.reduce((a, b) => a + b, 0) / below.length : next++);
  };
  visit(top);
  const taken = new Map();
  for (const [name, layer] of [...depth].sort((a, b) => column.get(a[0]) - column.get(b[0]))) {
    const at = Math.max(column.get(name), (taken.get(layer) ?? -1) + 1); // nobody stands on a neighbour
    taken.set(layer, at);
    column.set(name, at);
  }
  const place = new Map([...depth].map(([name, layer]) => [name, [MARGIN + STEP_X * (column.get(name) + 0.5), MARGIN + STEP_Y * layer + 20]]));
  return { place, columns: Math.max(...column.values()) + 1, owner };
}

/** A line to what a gate reads: in right angles to what hangs on it alone or first, a curve to what is shared. */
function wire([x1, y1], [x2, y2], first) {
  const half = y1 + 62;
  if (first) return svg("path", { class: "wire", d: `M${x1} ${y1 + 24}V${half}H${x2}V${y2 - 20}` });
  return svg("path", { class: "wire shared", d: `M${x1} ${y1 + 40}C${x1} ${y1 + 78} ${x2} ${y2 - 62} ${x2} ${y2 - 20}` });
}

/** The shapes that fault trees have on paper: a dome for AND, a shield for OR. */
const SHAPES = {
  and: "M-17 18V-2A17 17 0 0 1 17 -2V18Z",
  or: "M-17 18C-17 0 -10 -12 0 -20C10 -12 17 0 17 18C8 11 -8 11 -17 18Z",
  other: "M-18 18L-18 -4L0 -20L18 -4L18 18Z",
};

function gateMark(gate, [x, y]) {
  const type = String(gate.type).toLowerCase();
  const word = { and: "AND", or: "OR", not: "NOT", xor: "XOR", atleast: `${gate.k} of ${gate.inputs.length}`, vote: `${gate.k} of ${gate.inputs.length}` }[type] ?? type;
  return svg("g", { class: `gate gate-${type}`, transform: `translate(${x} ${y})` },
    svg("rect", { class: "gate-label", x: -LABEL / 2, y: -20, width: LABEL, height: 22, rx: 4 }),
    svg("text", { y: -5, "text-anchor": "middle" }, shortened(gate.name, 14)),
    svg("g", { transform: "translate(0 24) scale(.9)" }, svg("path", { d: SHAPES[type] ?? SHAPES.other }), svg("text", { y: 9, "text-anchor": "middle", class: "gate-word" }, word)),
    svg("title", {}, `${gate.name}: ${word} of ${gate.inputs.join(", ")}`));
}

function eventMark(name, event, [x, y], most) {
  const mark = svg("g", { class: "event", transform: `translate(${x} ${y})` },
    svg("rect", { class: "gate-label", x: -LABEL / 2, y: -20, width: LABEL, height: 22, rx: 4 }),
    svg("text", { y: -5, "text-anchor": "middle" }, shortened(name, 14)),
    svg("line", { class: "wire", x1: 0, y1: 2, x2: 0, y2: 8 }),
    svg("circle", { cy: 24, r: 16 }),
    svg("text", { y: 54, "text-anchor": "middle", class: "muted-text" }, event ? showGiven(event.prob) : ""),
    svg("title", {}, event ? `${name}: probability ${showProb(event.prob)}, Birnbaum ${showProb(event.birnbaum)}, criticality ${showProb(event.criticality)}` : name));
  return styled(mark, { "--t": strength(weight(event), most) });
}

const MEASURES = [["birnbaum", "Birnbaum"], ["fussell_vesely", "Fussell-Vesely"], ["raw", "RAW"], ["rrw", "RRW"]];

function drawEvents(events) {
  const order = [...events].sort((a, b) => weight(b) - weight(a)).slice(0, 200);
  const line = (event) => el("tr", {}, el("th", { scope: "row" }, event.name), el("td", { class: "number" }, showGiven(event.prob)),
    el("td", { class: "prob-cell" }, el("span", { class: "probability" }, bar(event.criticality), el("span", { class: "prob-text" }, showProb(event.criticality)))),
    MEASURES.map(([key]) => el("td", { class: "number" }, showProb(event[key]))));
  const names = ["event", "probability", "criticality", ...MEASURES.map(([, name]) => name)];
  byId("tree-events").replaceChildren(el("caption", { class: "unseen" }, "Events by criticality"),
    el("thead", {}, el("tr", {}, names.map((name, c) => el("th", { scope: "col", class: c !== 0 && c !== 2 ? "number" : null }, name)))), el("tbody", {}, order.map(line)));
}

function drawCuts(cuts, total) {
  byId("tree-cuts-title").textContent = total > cuts.length ? `Minimal cut sets: the first ${showCount(cuts.length)} of ${showCount(total)}` : "Minimal cut sets";
  const line = (cut, i) => el("tr", {}, el("td", { class: "number" }, showCount(i + 1)), el("td", {}, cut.events.join(" and ")), el("td", { class: "number" }, showProb(cut.prob)),
    el("td", { class: "prob-cell" }, el("span", { class: "probability" }, bar(cut.share), el("span", { class: "prob-text" }, showProb(cut.share)))));
  byId("tree-cuts").replaceChildren(el("caption", { class: "unseen" }, "Minimal cut sets"),
    el("thead", {}, el("tr", {}, ["", "all of these fail", "probability", "share of the sum"].map((name, c) => el("th", { scope: "col", class: c === 0 || c === 2 ? "number" : null }, name)))), el("tbody", {}, cuts.map(line)));
}
