/* The editor of the question: inserting columns, running, stopping, progress. */

import { inSession, limits, send, stream } from "./api.js";
import { announce, attempt, byId, el, failures } from "./dom.js";
import { recall, remember, rememberFields } from "./remember.js";

const fail = failures("query-error");
const state = { abort: null, run: null, show: () => {} };

/** Connects the editor; `show(answers, asked)` gets every set of answers as it comes. */
export function startQuery(show) {
  state.show = show;
  rememberFields(...["query", "guarantee", "epsilon", "delta", "seconds", "given"].map(byId));
  byId("run").addEventListener("click", run);
  byId("stop").addEventListener("click", stop);
  byId("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    } else if (event.key === "Escape" && state.abort) stop();
  });
  byId("guarantee").addEventListener("change", fitOptions);
  fitOptions();
  limitSeconds();
  if (recall("examples")) setExamples(recall("examples"));
  if (recall("running")) {
    remember("running", null);
    fail("The page was loaded anew while this query ran, which ended it. Run it again.");
  }
}

/** Nobody can ask for more seconds than the service gives. */
async function limitSeconds() {
  const { seconds } = await limits();
  byId("seconds").max = seconds;
  if (numberOf("seconds") > seconds) byId("seconds").value = seconds;
}

/** Error and risk are asked for only where the guarantee has them. */
function fitOptions() {
  const guarantee = byId("guarantee").value;
  byId("epsilon").parentElement.hidden = guarantee === "exact" || guarantee === "bounds";
  byId("delta").parentElement.hidden = guarantee === "exact" || guarantee === "bounds";
}

/** Puts a name where the cursor stands, with spaces around it where words would touch. */
export function insert(name) {
  const field = byId("query");
  const before = field.value.slice(0, field.selectionStart);
  const left = /[\w"]$/.test(before) ? " " : "";
  const right = /^[\w"]/.test(field.value.slice(field.selectionEnd)) ? " " : "";
  field.setRangeText(left + name + right, field.selectionStart, field.selectionEnd, "end");
  field.focus();
  field.dispatchEvent(new Event("input"));
}

/** Puts a whole query into the editor. */
export function setQuery(text) {
  const field = byId("query");
  field.value = text;
  field.rows = Math.min(14, Math.max(5, text.split("\n").length + 1));
  field.dispatchEvent(new Event("input"));
}

/** Offers the queries of a story above the editor. */
export function setExamples(examples) {
  remember("examples", examples);
  const choose = (example) => () => {
    setQuery(example.sql);
    run();
  };
  byId("query-examples").replaceChildren(...examples.map((example) => el("button", { class: "chip", onclick: choose(example) }, example.title)));
}

function numberOf(id) {
  const value = parseFloat(byId(id).value);
  return Number.isFinite(value) ? value : null;
}

function asked() {
  return {
    query: byId("query").value,
    guarantee: byId("guarantee").value || null,
    epsilon: numberOf("epsilon"),
    delta: numberOf("delta"),
    seconds: numberOf("seconds"),
    given: byId("given").value.trim() || null,
  };
}

/** Runs the query of the editor; a query that still runs is stopped before. */
export async function run() {
  if (state.abort) await stop();
  const question = asked();
  if (!question.query.trim()) return fail("Write a query first: a click on a column puts it into the editor.");
  const given = Object.fromEntries(Object.entries(question).filter(([, value]) => value !== null));
  const abort = new AbortController();
  state.abort = abort;
  working(true);
  const on = {
    started: ({ run: id }) => (state.run = id),
    progress: drawProgress,
    answers: (answers) => abort.signal.aborted || state.show(answers, question),
  };
  await attempt(() => inSession((path) => stream(`${path}/sql`, given, on, abort.signal)), fail);
  if (state.abort === abort) {
    state.abort = state.run = null;
    working(false);
  }
}

async function stop() {
  const { abort, run: id } = state;
  state.abort = state.run = null;
  working(false);
  announce("Stopped");
  abort?.abort();
  if (id) await send("DELETE", `/api/runs/${encodeURIComponent(id)}`).catch(() => {}); // it may just have ended
}

function working(on) {
  remember("running", on || null);
  byId("stop").disabled = !on;
  byId("run").setAttribute("aria-busy", String(on));
  byId("progress").hidden = !on;
  if (on) drawProgress({ fraction: null, text: "started" });
}

function drawProgress({ fraction, text }) {
  const field = byId("progress-bar");
  if (fraction === null || fraction === undefined) field.removeAttribute("value");
  else field.value = fraction;
  byId("progress-text").textContent = text ?? "";
  announce(text ?? "");
}
