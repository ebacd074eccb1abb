/* Numbers as people read them, and the bar with an interval that stands beside a probability. */

import { el, styled } from "./dom.js";

/** A probability with about four digits; close to 1 with as many as it takes to differ from 1. */
export function showProb(p) {
  if (p === null || p === undefined || Number.isNaN(p)) return "–";
  if (p === 0 || p === 1) return String(p);
  if (p < 0) return `−${showProb(-p)}`;
  if (p < 1e-3) return p.toExponential(2).replace("e-", "e−");
  if (p < 1 && 1 - p < 1e-14) return "≈ 1"; // no more digits are known
  if (p > 0.9999 && p < 1) {
    const digits = Math.min(15, 1 - Math.floor(Math.log10(1 - p)));
    return p.toFixed(digits);
  }
  return p >= 1 || p < 0.1 ? p.toPrecision(4) : p.toFixed(4);
}

/** A probability that was given, with the digits that it was given with. */
export const showGiven = (p) => (p === null || p === undefined ? "–" : p < 1e-4 ? showProb(p) : String(Number(p.toPrecision(6))));

export const showCount = (n) => Number(n).toLocaleString("en");

export const plural = (n, one, many = `${one}s`) => `${showCount(n)} ${n === 1 ? one : many}`;

/** A value of a table as text; what is NULL is told apart from an empty text by the caller. */
export function showValue(value) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "object") return JSON.stringify(value);
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(8)));
  return String(value);
}

/** A table cell with a value: numbers to the right, NULL in grey. */
export function cell(value, attributes = {}) {
  if (value === null || value === undefined) return el("td", attributes, el("span", { class: "null" }, "NULL"));
  const kind = typeof value === "number" ? "number" : null;
  return el("td", { class: kind, ...attributes }, showValue(value));
}

/** Whether an interval is wider than rounding makes it, so that it is shown. */
export const isWide = (low, high) => Number.isFinite(low) && Number.isFinite(high) && high - low > 1e-9 * high;

export const showInterval = (low, high) => `${showProb(low)} to ${showProb(high)}`;

/** A bar from 0 to 1, with the interval drawn over its end; the number stands in text beside it. */
export function bar(p, low = null, high = null) {
  const percent = (x) => `${100 * Math.min(1, Math.max(0, x ?? 0))}%`;
  const inside = [styled(el("span", { class: "bar-fill" }), { width: percent(p) })];
  if (isWide(low, high)) {
    const range = styled(el("span", { class: "bar-range" }), { left: percent(low), right: percent(1 - high) });
    inside.push(range);
  }
  return el("span", { class: "bar", "aria-hidden": "true" }, inside);
}

/** The bar, the number and the interval of a probability together. */
export function probability(p, low = null, high = null) {
  const text = [el("span", { class: "prob" }, showProb(p))];
  if (isWide(low, high)) text.push(el("span", { class: "interval" }, showInterval(low, high)));
  return el("span", { class: "probability" }, bar(p, low, high), el("span", { class: "prob-text" }, text));
}

/** What a guarantee promises, in a sentence. */
export function promise(guarantee, { epsilon = 0.1, delta = 0.05 } = {}) {
  const sure = `with ${Number((100 * (1 - delta)).toPrecision(6))} % confidence`;
  const words = {
    exact: "exact, up to rounding",
    relative: `within ${Number((100 * epsilon).toPrecision(6))} % of its true value ${sure}`,
    additive: `within ${epsilon} of the true value ${sure}`,
    bounds: "surely inside its interval",
    none: "an estimate without a promise",
  };
  return words[guarantee] ?? guarantee;
}

/** What is promised of one answer of the service, as a sentence. */
export function promiseOf(answer) {
  if (answer.met === false) return "The guarantee was not reached in the time: the interval says what is known.";
  const own = ["relative", "additive"].includes(answer.guarantee) ? answer.promise : null; // it knows epsilon and delta
  return `This probability is ${own ?? promise(answer.guarantee)}.`;
}
