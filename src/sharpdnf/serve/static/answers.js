/* The answers of a query as a table that sorts, with what is promised in words, and saving it as a file. */

import { download } from "./api.js";
import { announce, attempt, byId, el, failures } from "./dom.js";
import { cell, plural, probability, promise, showCount, showProb, showValue } from "./numbers.js";
import { recall, remember } from "./remember.js";

const PROB = -1; // the place of the probability among the columns
const failExport = failures("export-error");
const state = { answers: null, asked: {}, sort: null, chosen: null, explain: () => {}, closed: () => {} };

/** Connects the table; `explain(run, i, title)` shows why answer i holds, `closed()` hears that none is shown any more. */
export function startAnswers({ explain, closed }) {
  Object.assign(state, { explain, closed });
  byId("export-csv").addEventListener("click", () => attempt(() => save("csv"), failExport));
  byId("export-parquet").addEventListener("click", () => attempt(() => save("parquet"), failExport));
  const kept = recall("answers");
  if (kept) showAnswers(kept.answers, kept.asked);
}

/** Shows answers, which may come several times with intervals that shrink; the last are kept for a reload. */
export function showAnswers(answers, asked) {
  if (state.answers?.run !== answers.run) {
    state.sort = null;
    choose(null);
  }
  Object.assign(state, { answers, asked });
  byId("answers").hidden = false;
  draw();
  if (!answers.final) return;
  remember("answers", { answers, asked });
  announce(`${plural(answers.total, "answer")}. ${byId("answers-promise").textContent}`);
}

export function forgetAnswers() {
  remember("answers", null);
  state.answers = null;
  byId("answers").hidden = true;
  choose(null);
}

function draw() {
  const { answers } = state;
  const shown = answers.rows.length;
  byId("answers-size").textContent = shown < answers.total ? `the first ${showCount(shown)} of ${showCount(answers.total)}` : showCount(answers.total);
  byId("answers-promise").textContent = answers.final ? promised(answers) : "Still counting: the intervals shrink as answers come.";
  byId("answers-way").textContent = [answers.way, ...(answers.notes ?? [])].filter(Boolean).join(" ");
  for (const id of ["export-csv", "export-parquet"]) byId(id).disabled = !answers.final;
  const head = el("tr", {}, answers.columns.map((name, c) => header(name, c)), header("probability", PROB), el("th", { scope: "col" }, el("span", { class: "unseen" }, "explanation")));
  byId("answers-rows").replaceChildren(
    el("caption", { class: "unseen" }, "Answers with their probabilities"),
    el("thead", {}, head), el("tbody", {}, order().map(row)));
}

function promised(answers) {
  if (!answers.prob.length) return answers.total ? "" : "No answer is possible: no combination of rows gives one.";
  const kinds = [...new Set(answers.guarantee)];
  const words = kinds.map((kind) => promise(kind, state.asked)).join(", or ");
  const missed = answers.met.filter((met) => !met).length;
  const late = missed ? ` ${plural(missed, "answer")} did not get there in the time: the interval says what is known.` : "";
  return `Each probability is ${words}.${late}`;
}

function header(name, c) {
  const sorted = state.sort?.column === c ? state.sort.direction : null;
  const arrow = { ascending: "↑", descending: "↓" }[sorted] ?? "";
  const button = el("button", { class: "sort", onclick: () => sortBy(c) }, name, el("span", { class: "arrow", "aria-hidden": "true" }, arrow));
  return el("th", { scope: "col", "aria-sort": sorted ?? "none", class: c === PROB ? "prob-head" : isNumeric(c) ? "number" : null }, button);
}

const isNumeric = (c) => state.answers.rows.every((values) => values[c] === null || typeof values[c] === "number");

/** One click sorts, a second one the other way, a third one gives back the order of the query. */
function sortBy(column) {
  const first = column === PROB ? "descending" : "ascending";
  const second = column === PROB ? "ascending" : "descending";
  const now = state.sort?.column === column ? state.sort.direction : null;
  const direction = now === null ? first : now === first ? second : null;
  state.sort = direction && { column, direction };
  draw();
  [...byId("answers-rows").querySelectorAll("button.sort")].at(column === PROB ? -1 : column).focus();
  announce(direction ? `Sorted, ${direction}` : "In the order of the query");
}

/** The places of the answers in the order in which they are shown. */
function order() {
  const { answers, sort } = state;
  const places = answers.rows.map((_, i) => i);
  if (!sort) return places;
  const key = sort.column === PROB ? (i) => answers.prob[i] : (i) => answers.rows[i][sort.column];
  const sign = sort.direction === "ascending" ? 1 : -1;
  return places.sort((i, j) => compare(key(i), key(j), sign) || i - j);
}

/** NULL stands last in both directions, as in most databases' ORDER BY ... NULLS LAST. */
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * showValue(a).localeCompare(showValue(b), "en", { numeric: true });
}

function row(i) {
  const { answers } = state;
  const title = titleOf(i);
  const missed = answers.final && !answers.met[i] ? el("span", { class: "badge badge-late", title: "the guarantee was not reached in the time" }, "not met") : null;
  const why = answers.final && hasReasons(answers) ? el("button", { class: "why", "aria-label": `Why ${title}: probability ${showProb(answers.prob[i])}`, "aria-expanded": String(state.chosen === i), "aria-controls": "answer" }, "Why?") : null;
  const open = (event) => {
    const selecting = event.target !== why && getSelection().containsNode(event.currentTarget, true) && !getSelection().isCollapsed;
    if (!why || selecting) return; // who selects text in a row does not ask why
    choose(i);
    state.explain(answers.run, i, title);
  };
  return el("tr", { "data-answer": i, class: state.chosen === i ? "chosen" : null, onclick: open },
    answers.rows[i].map((value) => cell(value)),
    el("td", { class: "prob-cell" }, probability(answers.prob[i], answers.low[i], answers.high[i]), missed),
    el("td", { class: "why-cell" }, why));
}

/** Whether answers have a lineage: those of closed forms, networks and worlds, and those given evidence, have none. */
const hasReasons = (answers) => ["lineage", "circuit"].includes(answers.kind ?? "lineage") && !state.asked.given;

const titleOf = (i) => state.answers.columns.map((name, c) => `${name} = ${showValue(state.answers.rows[i][c])}`).join(", ") || "this answer";

function choose(i) {
  state.chosen = i;
  for (const line of byId("answers-rows").querySelectorAll("tr[data-answer]")) {
    const here = Number(line.dataset.answer) === i;
    line.classList.toggle("chosen", here);
    line.querySelector("button.why")?.setAttribute("aria-expanded", String(here));
  }
  if (i === null) state.closed();
}

/** The explanation was closed: the focus goes back to where it was asked for. */
export function unchoose() {
  const button = byId("answers-rows").querySelector("tr.chosen button.why");
  choose(null);
  button?.focus();
}

async function save(format) {
  const blob = await download(`/api/runs/${encodeURIComponent(state.answers.run)}/export?format=${format}`);
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: `answers.${format}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  announce(`Saved answers.${format}`);
}
