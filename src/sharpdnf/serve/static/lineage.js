/* The lineage of an answer as a picture: the answer, the ways to it, and the rows that the ways share. */

import { el, shortened, styled, svg } from "./dom.js";
import { plural, showProb, showValue } from "./numbers.js";

const MOST_WAYS = 40; // more lines could not be told apart
const LINE = 34, LEFT = 10, LETTER = 6.6;

/** Draws into `place` and says in words what is drawn. */
export function drawLineage(place, said, title) {
  if (!said.clauses) return drawCircuit(place, said, title);
  const clauses = said.clauses.slice(0, MOST_WAYS);
  const rows = inOrder(clauses, said.rows);
  const uses = new Map(rows.map((row) => [row.id, clauses.filter((clause) => clause.some((entry) => plain(entry) === row.id)).length]));
  const shared = rows.filter((row) => uses.get(row.id) > 1).length;
  place.replaceChildren(picture(clauses, rows, uses, said, columnsIn(place.clientWidth)));
  const total = said.clauses_total ?? said.clauses.length;
  const ways = `${plural(total, "way")} to this answer`;
  const left = total > clauses.length ? ` (the first ${clauses.length} are drawn)` : "";
  const common = shared ? `${plural(shared, "row")} ${shared === 1 ? "is" : "are"} shared by several ways` : "no row is shared between ways";
  return `${ways}${left}; ${common}. All rows of a way must be there.`;
}

const isAbsent = (entry) => entry.startsWith("~");
const plain = (entry) => (isAbsent(entry) ? entry.slice(1) : entry);

/** The rows that the clauses read, each near the middle of its ways, so that few lines cross. */
function inOrder(clauses, rows) {
  const known = new Map(rows.map((row) => [row.id, row]));
  const places = new Map();
  clauses.forEach((clause, i) => clause.forEach((entry) => places.set(plain(entry), [...(places.get(plain(entry)) ?? []), i])));
  const middle = (id) => places.get(id).reduce((a, b) => a + b, 0) / places.get(id).length;
  return [...places.keys()].sort((a, b) => middle(a) - middle(b)).map((id) => known.get(id) ?? { id, values: {} });
}

/** What stands in the box of a row: its values, with the names of their columns where there is room. */
function labelOf(row, letters = Infinity) {
  const values = Object.entries(row.values ?? {});
  if (!values.length) return row.id;
  const named = `${row.table} ${row.number}: ${values.map(([name, value]) => `${name} ${showValue(value)}`).join(", ")}`;
  const plainly = `${row.table} ${row.number}: ${values.map(([, value]) => showValue(value)).join(", ")}`;
  return shortened(named.length <= letters ? named : plainly, letters);
}

/** Where answer, ways and rows stand in a picture that is so many pixels wide. */
function columnsIn(available) {
  const width = Math.max(available - 2, 330);
  const [answer, way, row] = width < 520 ? [58, 104, 152] : [66, 0.27 * width, 0.45 * width];
  return { width, answer, way, row, rowWidth: width - row - LEFT };
}

function picture(clauses, rows, uses, said, columns) {
  const { width, answer: answerWidth, way: wayX, row: rowX } = columns;
  const height = LINE * Math.max(clauses.length, rows.length, 2) + 16;
  const wayY = (i) => (height * (i + 0.5)) / clauses.length;
  const rowY = new Map(rows.map((row, i) => [row.id, (height * (i + 0.5)) / rows.length]));
  const most = Math.max(...said.rows.map((row) => Math.abs(row.influence ?? 0)), 1e-300);
  const lines = [], ways = [];
  clauses.forEach((clause, i) => {
    lines.push(curve(LEFT + answerWidth, height / 2, wayX - 14, wayY(i), { "data-way": i }));
    clause.forEach((entry) => lines.push(curve(wayX + 14, wayY(i), rowX, rowY.get(plain(entry)), {
      "data-way": i, "data-row": plain(entry), class: isAbsent(entry) ? "absent" : null })));
    ways.push(svg("g", { class: "way", "data-way": i },
      svg("circle", { cx: wayX, cy: wayY(i), r: 13 }), svg("text", { x: wayX, y: wayY(i) + 4, "text-anchor": "middle" }, String(i + 1)),
      svg("title", {}, `way ${i + 1}: ${clause.join(" and ")}`)));
  });
  const boxes = rows.map((row) => rowBox(row, rowY.get(row.id), uses.get(row.id), Math.abs(row.influence ?? 0) / most, columns));
  const answer = svg("g", { class: "lineage-answer" },
    svg("rect", { x: LEFT, y: height / 2 - 15, width: answerWidth, height: 30, rx: 6 }),
    svg("text", { x: LEFT + answerWidth / 2, y: height / 2 + 4, "text-anchor": "middle" }, showProb(said.prob)));
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "lineage", role: "img",
    "aria-label": `${plural(clauses.length, "way")} over ${plural(rows.length, "row")}` }, lines, ways, boxes, answer);
  drawn.addEventListener("pointerover", (event) => highlight(drawn, event.target.closest("[data-way], [data-row]")));
  drawn.addEventListener("pointerleave", () => highlight(drawn, null));
  return drawn;
}

function curve(x1, y1, x2, y2, attributes) {
  const half = (x1 + x2) / 2;
  return svg("path", { d: `M${x1} ${y1} C${half} ${y1} ${half} ${y2} ${x2} ${y2}`, ...attributes });
}

function rowBox(row, y, uses, share, { row: x, rowWidth: width }) {
  const letters = Math.floor((width - (uses > 1 ? 70 : 22)) / LETTER);
  const box = svg("g", { class: uses > 1 ? "lineage-row shared" : "lineage-row", "data-row": row.id },
    svg("rect", { x, y: y - 13, width, height: 26, rx: 5 }),
    svg("rect", { class: "heat", x, y: y - 13, width: 6, height: 26, rx: 3 }),
    svg("text", { x: x + 14, y: y + 4 }, labelOf(row, letters)),
    uses > 1 ? svg("text", { x: x + width - 8, y: y + 4, "text-anchor": "end", class: "uses" }, `${uses} ways`) : null,
    svg("title", {}, `${labelOf(row)}; probability ${showProb(row.prob)}, influence ${showProb(row.influence)}, in ${plural(uses, "way")}`));
  return styled(box, { "--t": share });
}

/** Lets the ways of a row, or the rows of a way, stand out while the pointer is on it. */
function highlight(drawn, over) {
  drawn.classList.toggle("focused", Boolean(over));
  const parts = [...drawn.querySelectorAll("[data-way], [data-row]")];
  if (!over) return;
  const { way, row } = over.dataset;
  const ways = new Set(way !== undefined ? [way] : parts.filter((part) => part.dataset.row === row && part.dataset.way).map((part) => part.dataset.way));
  const rows = new Set(parts.filter((part) => ways.has(part.dataset.way) && part.dataset.row).map((part) => part.dataset.row));
  for (const part of parts) {
    part.classList.toggle("on", part.dataset.way !== undefined ? ways.has(part.dataset.way) : rows.has(part.dataset.row));
  }
}

/** The picture that the service draws of a circuit. As an image it is shown, but nothing in it can run. */
function drawCircuit(place, said, title) {
  if (!said.svg) {
    place.replaceChildren();
    return "The lineage of this answer is too large, or not of a kind, to be drawn.";
  }
  const address = URL.createObjectURL(new Blob([said.svg], { type: "image/svg+xml" }));
  const image = el("img", { src: address, alt: `Lineage of ${title} as a circuit of gates`, class: "circuit" });
  image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
  place.replaceChildren(image);
  return "The answer is a circuit of gates over rows: something must be absent, or is counted. Dashed: must be absent.";
}
