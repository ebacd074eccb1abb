/* Why one answer holds: its lineage, the rows that matter most, and sliders that change them. */

import { get, send } from "./api.js";
import { announce, attempt, byId, el, failures, latest } from "./dom.js";
import { drawLineage } from "./lineage.js";
import { plural, probability, showCount, showProb, showValue } from "./numbers.js";
import { slider } from "./slider.js";

const FIRST = 10;
const fail = failures("answer-error");
const state = { path: null, said: null, changed: {}, all: false };

/** Connects the card; `closed` hears that the user has closed it. */
export function startAnswer(closed) {
  byId("answer-close").addEventListener("click", closed);
  byId("answer").addEventListener("keydown", (event) => event.key === "Escape" && closed());
  byId("whatif-reset").addEventListener("click", reset);
  byId("influences-all").addEventListener("click", () => {
    state.all = true;
    drawInfluences();
  });
}

export function hideAnswer() {
  state.path = null;
  byId("answer").hidden = true;
}

/** Fetches and shows the explanation of answer i of a run. */
export async function explain(run, i, title) {
  const path = `/api/runs/${encodeURIComponent(run)}/answers/${i}`;
  Object.assign(state, { path, said: null, changed: {}, all: false });
  byId("answer-title").textContent = `Why ${title}?`;
  byId("answer").hidden = false;
  byId("answer-body").hidden = true;
  byId("answer").setAttribute("aria-busy", "true");
  const said = await attempt(() => get(path), fail);
  if (state.path !== path) return; // another answer was chosen meanwhile
  byId("answer").setAttribute("aria-busy", "false");
  byId("answer").focus({ preventScroll: true });
  byId("answer").scrollIntoView({ block: "start", behavior: "smooth" });
  if (!said) return;
  state.said = said;
  byId("answer-body").hidden = false;
  const words = drawLineage(byId("lineage"), said, title);
  byId("lineage-words").textContent = words;
  drawNow({ prob: said.prob, low: said.low ?? said.prob, high: said.high ?? said.prob });
  drawInfluences();
  announce(`${title}: probability ${showProb(said.prob)}. ${words}`);
}

function drawInfluences() {
  const { said, all } = state;
  const rows = all ? said.rows : said.rows.slice(0, FIRST);
  const most = Math.max(...said.rows.map((row) => Math.abs(row.influence ?? 0)), 0);
  byId("influences").replaceChildren(...rows.map((row) => influenceOf(row, most)));
  const button = byId("influences-all");
  button.hidden = rows.length === said.rows.length;
  button.textContent = `Show all ${showCount(said.rows.length)} rows`;
}

function influenceOf(row, most) {
  const values = Object.entries(row.values ?? {}).map(([name, value]) => `${name} ${showValue(value)}`).join(", ");
  const name = row.table ? `${row.table} ${row.number}` : row.id;
  return slider({
    name,
    detail: values,
    prob: state.changed[row.id] ?? row.prob,
    first: row.prob,
    influence: row.influence,
    most,
    move: (p) => {
      if (p === row.prob) delete state.changed[row.id];
      else state.changed[row.id] = p;
      recount();
    },
  });
}

const recount = () => {
  byId("whatif-reset").disabled = Object.keys(state.changed).length === 0;
  count({ ...state.changed });
};

/** Asks for the new answer; of several moves of a slider only the last one is waited for. */
const count = latest(async (prob) => {
  const path = state.path;
  const answer = await attempt(() => send("POST", `${path}/whatif`, { prob }), fail);
  if (answer && state.path === path) drawNow(answer);
});

function drawNow({ prob, low, high }) {
  const changed = Object.keys(state.changed).length;
  const before = changed ? el("span", { class: "muted" }, `instead of ${showProb(state.said.prob)}, with ${plural(changed, "changed row")}`) : null;
  byId("whatif-now").replaceChildren(probability(prob, low, high), before ?? "");
  if (changed) announce(`The answer now has probability ${showProb(prob)}`);
}

function reset() {
  state.changed = {};
  drawInfluences();
  recount();
  byId("influences").querySelector("input")?.focus();
}
