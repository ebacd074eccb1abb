/* Puts the page together: the views, files that are dropped or chosen, stories, and what a reload brings back. */

import { explain, hideAnswer, startAnswer } from "./answer.js";
import { forgetAnswers, showAnswers, startAnswers, unchoose } from "./answers.js";
import { restored, takeToken } from "./api.js";
import { announce, attempt, byId, warn } from "./dom.js";
import { openFaultTree, startFaultTree } from "./faulttree.js";
import { startFormula } from "./formula.js";
import { openNetwork, startNetwork } from "./network.js";
import { insert, run, setExamples, setQuery, startQuery } from "./query.js";
import { recall, remember } from "./remember.js";
import { startStories } from "./stories.js";
import { putTables, setTables, startTables, upload } from "./tables.js";

const VIEWS = ["sql", "network", "faulttree", "formula"];
const TEXT_OF_VIEW = { network: "links", faulttree: "tree-text", formula: "formula" };

/** Shows one of the views; the tab list is one stop of the Tab key, arrows go between its tabs. */
function showView(name, focus = false) {
  for (const view of VIEWS) {
    const here = view === name;
    byId(`view-${view}`).hidden = !here;
    byId(`tab-${view}`).setAttribute("aria-selected", String(here));
    byId(`tab-${view}`).tabIndex = here ? 0 : -1;
  }
  if (focus) byId(`tab-${name}`).focus();
  remember("view", name);
}

const currentView = () => VIEWS.find((view) => !byId(`view-${view}`).hidden);

function startTabs() {
  VIEWS.forEach((view, i) => {
    byId(`tab-${view}`).addEventListener("click", () => showView(view));
    byId(`tab-${view}`).addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      showView(VIEWS[(to + VIEWS.length) % VIEWS.length], true);
    });
  });
  showView(VIEWS.includes(recall("view")) ? recall("view") : "sql");
}

/** The start with its stories, or the work on tables. */
function showStart(start) {
  byId("start").hidden = !start;
  byId("work").hidden = start;
}

async function take(file) {
  const target = TEXT_OF_VIEW[currentView()];
  if (!target) return upload(file);
  return takeText(file, target);
}

/** Puts the text of a file into a field. */
async function takeText(file, target) {
  byId(target).value = await file.text();
  byId(target).dispatchEvent(new Event("change"));
  announce(`${file.name} loaded`);
  byId(target).focus();
}

function startFiles() {
  const file = byId("file"), textFile = byId("text-file");
  let target = null;
  for (const button of document.querySelectorAll(".choose-file")) button.addEventListener("click", () => file.click());
  for (const button of document.querySelectorAll(".choose-text")) {
    button.addEventListener("click", () => {
      target = button.dataset.target;
      textFile.click();
    });
  }
  file.addEventListener("change", async () => {
    for (const chosen of [...file.files]) await attempt(() => upload(chosen));
    file.value = ""; // the same file can be chosen again after it was mended
  });
  textFile.addEventListener("change", async () => {
    if (textFile.files.length) await attempt(() => takeText(textFile.files[0], target));
    textFile.value = "";
  });
  startDropping();
}

function startDropping() {
  const veil = byId("drop-veil");
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) veil.hidden = true;
  });
  addEventListener("drop", async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = true;
    for (const dropped of [...event.dataTransfer.files]) await attempt(() => take(dropped));
  });
}

async function openStory(id, story) {
  if (story.network) {
    showView("network", true);
    return openNetwork(story.network);
  }
  if (story.faulttree) {
    showView("faulttree", true);
    return openFaultTree(story.faulttree);
  }
  showView("sql");
  forgetAnswers();
  putTables(story.tables);
  setExamples(story.queries);
  setQuery(story.queries[0].sql);
  byId("query").focus({ preventScroll: true });
  scrollTo({ top: 0 });
  return run();
}

async function start() {
  takeToken();
  byId("notice-close").addEventListener("click", () => warn(null));
  startTabs();
  startFiles();
  startTables({ insert, changed: (count) => showStart(count === 0) });
  startQuery(showAnswers);
  startAnswer(unchoose);
  startAnswers({ explain, closed: hideAnswer });
  startNetwork();
  startFaultTree();
  startFormula();
  byId("to-stories").addEventListener("click", () => {
    showStart(true);
    byId("to-tables").hidden = false;
    byId("stories").querySelector("button")?.focus();
  });
  byId("to-tables").addEventListener("click", () => showStart(false));
  await startStories(openStory);
  const had = recall("session");
  const tables = await attempt(restored, (text) => text && warn(text)); // what the stories said stays
  if (tables?.length) setTables(tables);
  else {
    forgetAnswers();
    showStart(true);
    if (had && tables === null) warn("The session has ended and its tables with it. Load them again.");
  }
  document.body.dataset.ready = "true";
}

start();
