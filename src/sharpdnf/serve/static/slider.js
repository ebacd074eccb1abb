/* One thing with a probability that can be moved: a row of a table, a variable of a formula, a link of a network. */

import { el, styled } from "./dom.js";
import { showProb } from "./numbers.js";

let made = 0;

/**
 * A list item with a name, details, a bar of influence and a slider with a number beside it.
 * `move(p)` hears every change; `influence` may be missing.
 */
export function slider({ name, detail = "", prob, first = prob, influence = null, most = 0, move }) {
  made += 1;
  const id = `slider-${made}`;
  const range = el("input", { type: "range", id, min: 0, max: 1, step: 0.01, "aria-label": `Probability of ${name}` });
  const number = el("input", { type: "number", min: 0, max: 1, step: "any", "aria-label": `Probability of ${name}, as a number` });
  const item = el("li", { class: "slider" }, heading(name, detail, influence, most), el("div", { class: "slider-line" }, range, number));
  const put = (p) => {
    range.value = p;
    number.value = Number(p.toPrecision(6));
    range.setAttribute("aria-valuetext", showProb(p));
    item.classList.toggle("moved", p !== first);
  };
  put(prob);
  const moved = (text) => {
    const p = parseFloat(text);
    if (!(p >= 0 && p <= 1)) {
      number.setCustomValidity("A probability lies between 0 and 1.");
      number.reportValidity();
      return;
    }
    number.setCustomValidity("");
    put(p);
    move(p);
  };
  range.addEventListener("input", () => moved(range.value));
  number.addEventListener("change", () => moved(number.value));
  return item;
}

function heading(name, detail, influence, most) {
  const said = influence === null || influence === undefined ? null : el("span", { class: "influence" },
    el("span", { class: "influence-bar", "aria-hidden": "true" }, styled(el("span"), { width: `${most > 0 ? (100 * Math.abs(influence)) / most : 0}%` })),
    el("span", { class: "influence-number" }, el("span", { class: "unseen" }, "influence "), showProb(influence)));
  return el("div", { class: "slider-head" },
    el("span", { class: "slider-name" }, el("strong", {}, name), detail ? el("span", { class: "detail", title: detail }, detail) : null), said);
}
