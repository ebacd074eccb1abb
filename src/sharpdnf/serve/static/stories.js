/* The bundled stories: each opens with its data and a first answer. */

import { get, inSession, send } from "./api.js";
import { announce, attempt, byId, el, svg } from "./dom.js";

/** Small drawings in a square of 24, lines and dots: two records that overlap, links, a curve of readings, a tree. */
const PICTURES = {
  linkage: "M15 12a6 6 0 1 1-12 0a6 6 0 1 1 12 0M21 12a6 6 0 1 1-12 0a6 6 0 1 1 12 0",
  network: "M5 7L18 5L12 13ZM12 13L6 20M12 13L20 17",
  sensors: "M3 3V21H21M6 15C9 15 9 8 12 8S15 13 20 6",
  faulttree: "M9 3H15V8H9ZM12 8V12M6 15V12H18V15M3.5 15H8.5V20H3.5ZM15.5 15H20.5V20H15.5Z",
};

const DOTS = { network: "M5 7h.01M18 5h.01M12 13h.01M6 20h.01M20 17h.01" };

/** Draws a card for each story; `open(id, story)` hears of the one that was chosen, once its data are there. */
export async function startStories(open) {
  const begin = (id) => attempt(async () => {
    announce("Loading the story");
    await open(id, await inSession((path) => send("POST", `${path}/stories/${id}`, {})));
  });
  for (const button of document.querySelectorAll(".story-button")) button.addEventListener("click", () => begin(button.dataset.story));
  const stories = await attempt(() => get("/api/stories"));
  byId("stories").replaceChildren(...(stories ?? []).map((story) => el("button", { class: "story", "data-story": story.id, onclick: () => begin(story.id) },
    el("span", { class: "story-picture", "aria-hidden": "true" }, svg("svg", { viewBox: "0 0 24 24" }, svg("path", { d: PICTURES[story.id] ?? "" }), svg("path", { d: DOTS[story.id] ?? "", class: "dots" }))),
    el("span", { class: "story-title" }, story.title), el("span", { class: "story-text" }, story.text))));
}
