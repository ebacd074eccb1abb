/* A network: its links as text, the question, and the picture with links coloured by importance. */

import { send } from "./api.js";
import { announce, attempt, byId, el, failures, latest, shortened, styled, svg } from "./dom.js";
import { bar, plural, probability, promiseOf, showGiven, showProb } from "./numbers.js";
import { recall, remember, rememberFields } from "./remember.js";
import { slider } from "./slider.js";

const MARGIN = 48, DECADES = 3; // colours span so many powers of ten of importance
const MOST_LINKS = 200; // rows of the table; the picture has all
const fail = failures("network-error");
const state = { asked: null, said: null, chosen: null };

export function startNetwork() {
  rememberFields(...["links", "network-question", "source", "target", "terminals", "directed"].map(byId));
  byId("network-run").addEventListener("click", count);
  byId("view-network").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) count();
  });
  byId("network-question").addEventListener("change", fitFields);
  byId("links").addEventListener("change", nameNodes);
  fitFields();
  nameNodes();
  const kept = recall("network");
  if (kept) show(kept.asked, kept.said);
}

/** Fills in a network and counts it. */
export async function openNetwork({ edges, directed, source, target }) {
  const put = (id, value) => {
    byId(id).value = value;
    byId(id).dispatchEvent(new Event("change"));
  };
  put("links", edges.map((link) => link.join(", ")).join("\n"));
  put("network-question", "two-terminal");
  put("source", source ?? "");
  put("target", target ?? "");
  byId("directed").checked = Boolean(directed);
  byId("directed").dispatchEvent(new Event("change"));
  await count();
}

/** Only the fields that the question needs are there. */
function fitFields() {
  const question = byId("network-question").value;
  for (const label of byId("view-network").querySelectorAll("[data-for]")) {
    label.hidden = !label.dataset.for.split(" ").includes(question);
  }
}

function nameNodes() {
  let links = [];
  try {
    links = readLinks(byId("links").value);
  } catch {
    // The names are offered once the text can be read; what is wrong is said when it is counted.
  }
  const names = [...new Set(links.flatMap(([u, v]) => [u, v]))].slice(0, 2000);
  byId("node-names").replaceChildren(...names.map((name) => el("option", { value: name })));
}

/** [from, to, probability] of each line; a first line without a number is taken as names of columns. */
export function readLinks(text) {
  const links = [];
  text.split(/\r?\n/).forEach((line, i) => {
    if (!line.trim() || line.trim().startsWith("#")) return;
    const mark = [",", ";", "\t"].find((candidate) => line.includes(candidate)) ?? /\s+/;
    const [u, v, p = ""] = line.trim().split(mark).map((part) => part.trim());
    const prob = Number(p);
    if (p !== "" && !Number.isNaN(prob) && v) {
      if (prob < 0 || prob > 1) throw new Error(`Line ${i + 1}: ${p} is no probability, which lies between 0 and 1.`);
      links.push([u, v, prob]);
    } else if (links.length || i > 0) throw new Error(`Line ${i + 1}: write from, to and a probability, such as "a, b, 0.9".`);
  });
  return links;
}

function question() {
  const kind = byId("network-question").value;
  const edges = readLinks(byId("links").value);
  if (!edges.length) throw new Error("Write at least one link, such as “a, b, 0.9”.");
  const asked = { edges, directed: byId("directed").checked, question: kind, importance: true };
  const needs = { "two-terminal": ["source", "target"], reach: ["source"] }[kind] ?? [];
  for (const field of needs) {
    asked[field] = byId(field).value.trim();
    if (!asked[field]) throw new Error(`Say ${field === "source" ? "from" : "to"} which node.`);
  }
  if (kind === "k-terminal") asked.terminals = byId("terminals").value.split(",").map((name) => name.trim()).filter(Boolean);
  return asked;
}

async function count() {
  byId("network-run").setAttribute("aria-busy", "true");
  await attempt(async () => {
    const asked = question();
    show(asked, await send("POST", "/api/network", asked));
    remember("network", { asked, said: state.said });
  }, fail);
  byId("network-run").setAttribute("aria-busy", "false");
}

function show(asked, said) {
  Object.assign(state, { asked, said, chosen: null });
  byId("network-answer").hidden = false;
  byId("network-empty").hidden = true;
  byId("network-link").hidden = true;
  drawSaid(said);
  const drawable = said.nodes.every((node) => node.x !== null && node.x !== undefined);
  const large = `A picture of ${plural(said.nodes.length, "node")} could not be read: the table has the links that matter most.`;
  byId("network-picture").replaceChildren(drawable ? picture(asked, said, byId("network-answer").clientWidth - 36) : el("p", { class: "muted" }, large));
  drawTable(said);
}

const TITLES = {
  "two-terminal": (asked) => `${asked.source} and ${asked.target} are connected`,
  "k-terminal": (asked) => `${asked.terminals.join(", ")} are connected`,
  "all-terminal": () => "All nodes are connected",
  reach: (asked) => `What ${asked.source} reaches`,
};

function drawSaid(said, changed = "") {
  const { asked } = state;
  byId("network-title").textContent = TITLES[asked.question](asked);
  const parts = [];
  if (said.prob !== null && said.prob !== undefined) {
    parts.push(probability(said.prob, said.low, said.high), el("p", { class: "muted" }, `It fails with probability ${showProb(said.complement ?? 1 - said.prob)}. ${promiseOf(said)} ${changed}`));
  } else parts.push(el("p", { class: "muted" }, "The shade of a node says how likely it is to be reached."));
  if (said.notes?.length) parts.push(el("p", { class: "muted" }, said.notes.join(" ")));
  byId("network-said").replaceChildren(...parts);
  if (said.prob !== null && said.prob !== undefined) announce(`${byId("network-title").textContent}: probability ${showProb(said.prob)}`);
}

/** Where an importance stands on the scale of colours, from 0 to 1: it spans powers of ten, so its logarithm counts. */
export function strength(importance, most) {
  if (!(importance > 0) || !(most > 0)) return 0;
  return Math.min(1, Math.max(0, 1 + Math.log10(importance / most) / DECADES));
}

const mostOf = (said) => Math.max(...said.edges.map((link) => link.importance ?? 0), 0);

/** Nodes and links on so many pixels; names keep their size on a narrow screen. */
function picture(asked, said, available) {
  const width = Math.max(320, available), height = Math.max(340, Math.min(560, 0.62 * width));
  const place = new Map(said.nodes.map((node) => [node.name, [MARGIN + node.x * (width - 2 * MARGIN), 24 + (1 - node.y) * (height - 48)]]));
  const ends = new Set([asked.source, asked.target, ...(asked.terminals ?? [])].filter((name) => name !== undefined));
  const radius = Math.max(3.5, Math.min(9, width / 80, 120 / Math.sqrt(said.nodes.length)));
  const most = mostOf(said);
  const byImportance = said.edges.map((link, i) => ({ ...link, i })).sort((a, b) => (a.importance ?? 0) - (b.importance ?? 0));
  const links = byImportance.map((link) => linkLine(link, place, most, asked.directed, radius));
  const nodes = said.nodes.map((node) => nodeMark(node, place.get(node.name), { radius, width, marked: ends.has(node.name), named: said.nodes.length <= 80 }));
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z" }));
  return el("figure", {},
    svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "network", role: "img", "aria-label": `Network of ${plural(said.nodes.length, "node")} and ${plural(said.edges.length, "link")}; the table below lists the links by importance` },
      svg("defs", {}, arrow), links, nodes),
    most > 0 ? legend(most) : null);
}

function linkLine(link, place, most, directed, radius) {
  const [x1, y1] = place.get(link.u), [x2, y2] = place.get(link.v);
  const share = strength(link.importance, most);
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const cut = directed ? radius + 1 : 0;
  const ends = { x1, y1, x2: x2 - ((x2 - x1) * cut) / length, y2: y2 - ((y2 - y1) * cut) / length };
  const title = `${link.u} to ${link.v}: works with ${showGiven(link.p)}, importance ${showProb(link.importance)}`;
  const line = svg("g", { class: "link", "data-link": link.i, onclick: () => choose(link.i) },
    svg("line", { ...ends, class: "link-hit" }),
    svg("line", { ...ends, class: "link-line", "stroke-width": 1.5 + 4.5 * share, "marker-end": directed ? "url(#arrow)" : null }), svg("title", {}, title));
  return styled(line, { "--t": share });
}

function nodeMark(node, [x, y], { radius, width, marked, named }) {
  const left = x > width - 2 * MARGIN;
  const circle = svg("circle", { cx: x, cy: y, r: radius });
  if (node.prob !== null && node.prob !== undefined) styled(circle, { "--t": node.prob });
  const mark = marked ? "node terminal" : node.prob !== null && node.prob !== undefined ? "node reached" : "node";
  return svg("g", { class: mark }, circle,
    named ? svg("text", { x: x + (left ? -1 : 1) * (radius + 4), y: y + 4, "text-anchor": left ? "end" : "start" }, shortened(String(node.name), 22)) : null,
    svg("title", {}, node.prob !== null && node.prob !== undefined ? `${node.name}: reached with ${showProb(node.prob)}` : String(node.name)));
}

function legend(most) {
  const mark = (power) => el("span", {}, String(Number((most * 10 ** -power).toPrecision(2))));
  return el("figcaption", { class: "legend" }, "importance of a link",
    el("span", { class: "scale", "aria-hidden": "true" }), el("span", { class: "scale-marks" }, [3, 2, 1, 0].map(mark)));
}

function drawTable(said) {
  const most = mostOf(said);
  const order = said.edges.map((link, i) => ({ ...link, i })).sort((a, b) => (b.importance ?? 0) - (a.importance ?? 0)).slice(0, MOST_LINKS);
  const line = (link) => el("tr", { "data-link": link.i, onclick: () => choose(link.i) },
    el("th", { scope: "row" }, el("button", { class: "plain", "aria-label": `What if the link from ${link.u} to ${link.v} changes` }, `${link.u} ${state.asked.directed ? "→" : "–"} ${link.v}`)),
    el("td", { class: "number" }, showGiven(link.p)),
    el("td", { class: "prob-cell" }, el("span", { class: "probability" }, bar(most ? (link.importance ?? 0) / most : 0), el("span", { class: "prob-text" }, showProb(link.importance)))));
  byId("network-table").replaceChildren(
    el("caption", { class: "unseen" }, "Links by importance"),
    el("thead", {}, el("tr", {}, ["link", "works with", "importance"].map((name, c) => el("th", { scope: "col", class: c === 1 ? "number" : null }, name)))),
    el("tbody", {}, order.map(line)));
}

/** Offers a slider for one link. */
function choose(i) {
  const link = state.said.edges[i];
  if (isReach()) return;
  state.chosen = i;
  for (const part of byId("network-answer").querySelectorAll("[data-link]")) part.classList.toggle("chosen", Number(part.dataset.link) === i);
  const box = byId("network-link");
  box.hidden = false;
  box.replaceChildren(el("ul", { class: "influences" }, slider({
    name: `${link.u} ${state.asked.directed ? "→" : "–"} ${link.v}`, detail: "what if it worked with another probability?", prob: link.p, influence: link.importance, most: mostOf(state.said), move: (p) => recount({ i, p }) })));
  box.querySelector("input").focus({ preventScroll: true });
  box.scrollIntoView({ block: "nearest" });
}

const isReach = () => state.asked.question === "reach";

const recount = latest(async ({ i, p }) => {
  const edges = state.said.edges.map((link, place) => [link.u, link.v, place === i ? p : link.p]);
  const said = await attempt(() => send("POST", "/api/network", { ...state.asked, edges, importance: false }), fail);
  if (said && state.chosen === i) drawSaid(said, p === state.said.edges[i].p ? "" : `It is ${showProb(state.said.prob)} as given.`);
});
