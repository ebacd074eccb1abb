/* A formula typed in by hand: its probability, and a slider for every variable of a formula in text. */

import { send, stream } from "./api.js";
import { announce, attempt, byId, el, failures, latest } from "./dom.js";
import { probability, promiseOf, showProb } from "./numbers.js";
import { recall, remember, rememberFields } from "./remember.js";
import { slider } from "./slider.js";

const EXAMPLE = "(rain & ~umbrella) | sprinkler";
const MOST_SLIDERS = 40;
const fail = failures("formula-error");
const state = { abort: null, probs: {}, first: null, asked: null };

export function startFormula() {
  byId("formula").value = EXAMPLE;
  rememberFields(...["formula", "formula-format", "formula-guarantee"].map(byId));
  state.probs = recall("formula.probs", {});
  byId("formula-run").addEventListener("click", count);
  byId("formula-stop").addEventListener("click", () => state.abort?.abort());
  byId("view-formula").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) count();
    if (event.key === "Escape") state.abort?.abort();
  });
}

/** The variables of a formula in text, in the order of their first places. */
export function variablesOf(text) {
  const words = text.match(/[A-Za-z_][\w.]*/g) ?? [];
  return [...new Set(words)].filter((word) => !/^(and|or|not|true|false|atleast|xor)$/i.test(word));
}

function question() {
  const asked = { formula: byId("formula").value, format: byId("formula-format").value, guarantee: byId("formula-guarantee").value };
  if (!asked.formula.trim()) throw new Error("Write a formula, such as “a & b | ~c”.");
  if (asked.format === "text") asked.probabilities = Object.fromEntries(variablesOf(asked.formula).map((name) => [name, state.probs[name] ?? 0.5]));
  return asked;
}

async function count() {
  state.abort?.abort();
  const abort = (state.abort = new AbortController());
  working(true);
  await attempt(async () => {
    const asked = (state.asked = question());
    let last = null;
    const on = {
      progress: ({ text }) => progress(text),
      answers: (answer) => draw((last = answer)),
      answer: (answer) => draw((last = answer)),
    };
    await stream("/api/count", asked, on, abort.signal);
    if (last) state.first = last.prob;
    await drawVariables(asked, abort.signal);
  }, fail);
  if (state.abort === abort) {
    state.abort = null;
    working(false);
  }
}

function working(on) {
  byId("formula-run").setAttribute("aria-busy", String(on));
  byId("formula-stop").disabled = !on;
  progress(on ? "counting" : null);
}

function progress(text) {
  byId("formula-progress").hidden = !text;
  byId("formula-progress").textContent = text ?? "";
}

function draw(answer) {
  byId("formula-answer").hidden = false;
  byId("formula-empty").hidden = true;
  const engine = answer.engine ? ` Counted by ${answer.engine}.` : "";
  const words = answer.guarantee ? `${promiseOf(answer)}${engine}` : "";
  byId("formula-said").replaceChildren(probability(answer.prob, answer.low, answer.high), el("p", { class: "muted" }, words));
  announce(`Probability ${showProb(answer.prob)}`);
}

/** Every variable with its influence; those of a formula in text get sliders that change the answer at once. */
async function drawVariables(asked, signal) {
  const { variables } = await send("POST", "/api/explain", asked, { signal });
  const most = Math.max(...variables.map((variable) => Math.abs(variable.influence ?? 0)), 0);
  const shown = [...variables].sort((a, b) => Math.abs(b.influence ?? 0) - Math.abs(a.influence ?? 0)).slice(0, MOST_SLIDERS);
  byId("variables").replaceChildren(...shown.map((variable) => slider({
    name: variable.name, prob: variable.prob, influence: variable.influence, most, move: (p) => move(variable.name, p) })));
}

function move(name, p) {
  if (state.asked.format === "text") {
    state.probs[name] = p;
    remember("formula.probs", state.probs);
  }
  state.asked.moved = { ...state.asked.moved, [name]: p };
  recount(state.asked);
}

const recount = latest(async (asked) => {
  const { moved, ...question } = asked;
  const answer = await attempt(() => send("POST", "/api/whatif", { ...question, prob: moved }), fail);
  if (answer && state.asked === asked) draw({ ...answer, guarantee: answer.guarantee ?? asked.guarantee });
});
