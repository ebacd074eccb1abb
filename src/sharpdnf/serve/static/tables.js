/* The tables of the session: loading files, the schema at the side, the rows, the marks and what is wrong with them. */

import { get, inSession, limits, send } from "./api.js";
import { announce, attempt, byId, el, failures, warn } from "./dom.js";
import { cell, plural, showCount } from "./numbers.js";
import { recall, remember } from "./remember.js";

const PAGE = 50;
const EXPRESSION = "\u0000expression"; // no column has this name
const fail = failures("table-error");

const state = { tables: [], shown: null, offset: 0, insert: () => {}, changed: () => {} };

/** Connects the controls; `insert` puts text into the query, `changed` hears that there are other tables. */
export function startTables({ insert, changed }) {
  Object.assign(state, { insert, changed });
  byId("page-back").addEventListener("click", () => turn(-PAGE));
  byId("page-on").addEventListener("click", () => turn(PAGE));
  byId("table-remove").addEventListener("click", () => attempt(removeTable, fail));
  byId("marks").addEventListener("submit", (event) => event.preventDefault());
  byId("mark-prob").addEventListener("change", probChosen);
  byId("mark-expression").addEventListener("change", () => attempt(mark, fail));
  byId("mark-block").addEventListener("change", () => attempt(mark, fail));
}

/** Takes over tables that the service has sent; the first new one is shown. */
export function putTables(tables) {
  for (const table of tables) {
    const place = state.tables.findIndex((other) => other.name === table.name);
    if (place >= 0) state.tables[place] = table;
    else state.tables.push(table);
  }
  if (tables.length) show(tables[0].name);
}

/** Begins with these tables and no others. */
export function setTables(tables) {
  state.tables = [];
  state.shown = null;
  putTables(tables);
  const last = recall("table");
  if (tables.some((table) => table.name === last)) show(last);
  if (!tables.length) state.changed(0);
}

/** Loads a file; what the service says about it is the answer. */
export async function upload(file) {
  const format = /\.(parquet|pq)$/i.test(file.name) ? "parquet" : "csv";
  const most = (await limits()).body_bytes;
  if (most && file.size > most) {
    warn(`${file.name} has ${megabytes(file.size)}: a table of at most ${megabytes(most)} can be loaded here.`);
    return;
  }
  announce(`Loading ${file.name}`);
  const name = tableName(file.name);
  const table = await attempt(async () => {
    try {
      return await inSession((path) =>
        send("POST", `${path}/tables?name=${name}&format=${format}`, file, { type: "application/octet-stream" }));
    } catch (error) {
      error.message = `${file.name}: ${error.message}${placeOf(error.where)}`;
      throw error;
    }
  });
  if (!table) return;
  putTables([table]);
  announce(`Table ${table.name} loaded: ${plural(table.rows, "row")}, ${plural(table.columns.length, "column")}`);
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

function placeOf(where) {
  if (!where) return "";
  const parts = Object.entries(where).map(([what, value]) => `${what} ${value}`);
  return ` (${parts.join(", ")})`;
}

/** A name that SQL takes without quotes: "Sales 2024.csv" becomes sales_2024. */
function tableName(fileName) {
  const plain = fileName.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
  return /^[a-z]/.test(plain) ? plain : `t_${plain || "table"}`;
}

const shownTable = () => state.tables.find((table) => table.name === state.shown);

function show(name) {
  state.shown = name;
  state.offset = 0;
  remember("table", name);
  fail(null);
  drawSchema();
  drawTable(shownTable().preview);
  state.changed(state.tables.length);
}

function drawSchema() {
  byId("schema").replaceChildren(...state.tables.map(schemaOf));
}

/** A table at the side: its name shows it, its columns go into the query. */
function schemaOf(table) {
  const current = table.name === state.shown;
  const head = el("button", { class: "schema-name", "aria-current": current ? "true" : null, onclick: () => show(table.name) },
    el("span", {}, table.name), el("span", { class: "muted" }, plural(table.rows, "row")));
  const columns = table.columns.map((column) => {
    const badge = badgeOf(table, column.name);
    const label = `Insert column ${column.name} of ${table.name} into the query${badge ? `; it is the ${badge.word}` : ""}`;
    return el("li", {}, el("button", { class: "schema-column", "aria-label": label, onclick: () => state.insert(identifier(column.name)) },
      el("span", { class: "column-name" }, column.name),
      badge ? el("span", { class: `badge ${badge.kind}` }, badge.word) : null,
      el("span", { class: "type" }, String(column.type).toLowerCase())));
  });
  const plus = el("button", { class: "schema-insert", "aria-label": `Insert the table ${table.name} into the query`, title: "Insert into the query", onclick: () => state.insert(identifier(table.name)) }, "+");
  return el("div", { class: current ? "schema-table current" : "schema-table" }, el("div", { class: "schema-head" }, head, plus), el("ul", {}, columns));
}

const blockColumns = (table) => (table.block === null || table.block === undefined ? [] : [table.block].flat());

function badgeOf(table, column) {
  if (table.prob === column) return { word: "probability", kind: "badge-prob" };
  if (blockColumns(table).includes(column)) return { word: "block", kind: "badge-block" };
  return null;
}

/** A name as SQL reads it: in quotes where it is no plain word. */
const identifier = (name) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

function drawTable(rows) {
  const table = shownTable();
  byId("table-title").textContent = table.name;
  byId("table-size").textContent = plural(table.rows, "row");
  byId("table-remove").hidden = Boolean(table.mounted);
  byId("table-remove").setAttribute("aria-label", `Remove the table ${table.name}`);
  drawMarks(table);
  drawProblems(table);
  drawRows(table, rows);
  const last = Math.min(state.offset + PAGE, table.rows);
  byId("page-place").textContent = table.rows ? `rows ${showCount(state.offset + 1)} to ${showCount(last)} of ${showCount(table.rows)}` : "no rows";
  byId("page-back").disabled = state.offset === 0;
  byId("page-on").disabled = last >= table.rows;
  byId("page-back").parentElement.hidden = table.rows <= PAGE;
}

function drawMarks(table) {
  const names = table.columns.map((column) => column.name);
  const isExpression = table.prob !== null && !names.includes(table.prob);
  const option = (value, text, chosen) => el("option", { value, selected: chosen }, text);
  byId("mark-prob").replaceChildren(
    option("", "none: every row is certain", table.prob === null),
    ...names.map((name) => option(name, name, name === table.prob)),
    option(EXPRESSION, "an expression…", isExpression));
  byId("mark-expression-label").hidden = !isExpression;
  byId("mark-expression").value = isExpression ? table.prob : "";
  const block = blockColumns(table);
  byId("mark-block").replaceChildren(
    option("", "none: rows are independent", block.length === 0),
    ...names.map((name) => option(JSON.stringify(name), name, block.length === 1 && block[0] === name)),
    ...(block.length > 1 ? [option(JSON.stringify(block), block.join(", "), true)] : []));
  byId("mark-block").disabled = table.prob === null;
  drawSuggestion(table);
}

/** Offers to mark a column that is called as probabilities often are. */
function drawSuggestion(table) {
  const line = byId("mark-suggestion");
  const likely = table.columns.find((column) => /^(p|prob|probability|.*_prob(ability)?)$/i.test(column.name));
  line.hidden = table.prob !== null || !likely;
  if (line.hidden) return;
  const use = () => {
    byId("mark-prob").value = likely.name;
    attempt(mark, fail);
  };
  line.replaceChildren(`Column ${likely.name} looks like a probability. `, el("button", { onclick: use }, `Mark ${likely.name}`));
}

function probChosen() {
  const expression = byId("mark-prob").value === EXPRESSION;
  byId("mark-expression-label").hidden = !expression;
  if (expression) byId("mark-expression").focus();
  else attempt(mark, fail);
}

/** Tells the service which columns are marked and shows the table as it then is. */
async function mark() {
  const chosen = byId("mark-prob").value;
  const prob = chosen === EXPRESSION ? byId("mark-expression").value.trim() : chosen;
  const blockChosen = byId("mark-block").value;
  const block = prob && blockChosen ? JSON.parse(blockChosen) : null;
  const name = state.shown;
  let table;
  try {
    table = await inSession((path) =>
      send("PUT", `${path}/tables/${encodeURIComponent(name)}/uncertain`, { prob: prob || null, block }));
  } catch (error) {
    drawMarks(shownTable()); // the marks show what holds
    throw error;
  }
  const focus = document.activeElement?.id;
  putTables([table]);
  if (focus) byId(focus)?.focus();
  const wrong = table.problems_total ? `, ${plural(table.problems_total, "problem")}` : "";
  announce(prob ? `${prob} is the probability of ${name}${wrong}` : `Every row of ${name} is certain`);
}

function drawProblems(table) {
  const box = byId("problems");
  box.hidden = !table.problems?.length;
  if (box.hidden) return;
  const item = (problem) => el("li", {},
    el("button", { onclick: () => showRow(problem.row) }, `Row ${showCount(problem.row)}`), ` ${problem.message}`);
  const more = table.problems_total - table.problems.length;
  box.replaceChildren(
    el("p", {}, el("strong", {}, plural(table.problems_total, "problem")), ". Mend the file and load it again, or mark another column or expression."),
    el("ul", {}, table.problems.slice(0, 8).map(item)),
    table.problems_total > 8 ? el("p", { class: "muted" }, `and ${showCount(Math.max(more, 0) + Math.max(table.problems.length - 8, 0))} more, marked at their rows`) : "");
}

const isNumber = (column) => /int|double|float|decimal|numeric|real/i.test(column.type);

function drawRows(table, rows) {
  const wrong = new Map();
  for (const problem of table.problems ?? []) {
    wrong.set(problem.row, [...(wrong.get(problem.row) ?? []), problem]);
  }
  const head = el("tr", {}, el("th", { scope: "col", class: "number" }, "row"),
    table.columns.map((column) => el("th", { scope: "col", title: column.type, class: isNumber(column) ? "number" : null },
      column.name, badgeOf(table, column.name) ? el("span", { class: `badge ${badgeOf(table, column.name).kind}` }, badgeOf(table, column.name).word) : null)));
  const body = rows.map((values, i) => {
    const number = state.offset + i + 1;
    const problems = wrong.get(number) ?? [];
    const tooltip = problems.map((problem) => problem.message).join("; ");
    const cells = values.map((value, c) => {
      const here = problems.find((problem) => problem.column === table.columns[c].name);
      const made = cell(value);
      if (here) {
        made.classList.add("wrong");
        made.append(el("span", { class: "wrong-words" }, here.message));
      }
      return made;
    });
    const header = el("th", { scope: "row", class: "number" }, problems.length ? "⚠ " : "", showCount(number));
    return el("tr", { id: `row-${number}`, class: problems.length ? "wrong-row" : null, title: tooltip || null }, header, cells);
  });
  byId("table-rows").replaceChildren(el("caption", { class: "unseen" }, `Rows of ${table.name}`), el("thead", {}, head), el("tbody", {}, body));
}

const turn = (by) => attempt(() => goTo(state.offset + by), fail);

async function goTo(offset) {
  const name = state.shown;
  const start = Math.max(0, offset);
  const page = await inSession((path) => get(`${path}/tables/${encodeURIComponent(name)}?offset=${start}&limit=${PAGE}`));
  if (state.shown !== name) return;
  state.offset = start;
  drawTable(page.rows);
}

function showRow(number) {
  attempt(async () => {
    if (!byId(`row-${number}`)) await goTo(PAGE * Math.floor((number - 1) / PAGE));
    byId(`row-${number}`).scrollIntoView({ block: "center" });
    announce(byId(`row-${number}`).title);
  }, fail);
}

async function removeTable() {
  const name = state.shown;
  await inSession((path) => send("DELETE", `${path}/tables/${encodeURIComponent(name)}`));
  setTables(state.tables.filter((table) => table.name !== name));
  announce(`Table ${name} removed`);
}
