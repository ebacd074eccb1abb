/* Builds elements. Data become text nodes or attributes, never HTML: nothing that stands in a table can run as a script. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; attributes that start with "on" are listeners, true and false mean present and absent. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, made as `el` makes those of HTML. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets CSS properties one by one, which the page's security policy allows where it forbids a style attribute. */
export function styled(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}

/** Tells a screen reader what has happened, without moving the focus. */
export function announce(text) {
  byId("live").textContent = text;
}

/** Shows what went wrong above the page until it is dismissed or something else is said; null takes it away. */
export function warn(text) {
  const box = byId("notice");
  box.hidden = !text;
  byId("notice-text").textContent = text ?? "";
}

/** Runs asynchronous work; whatever goes wrong is told in `show`, or above the page. */
export async function attempt(work, show = warn) {
  try {
    show(null);
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") show(error.message || String(error));
    return undefined;
  }
}

/** The error line of a card: `const fail = failures("query-error")`, then `fail("what is wrong")` or `fail(null)`. */
export function failures(id) {
  return (text) => {
    const line = byId(id);
    line.hidden = !text;
    line.textContent = text ?? "";
  };
}

/** Cuts a text that is too long for its place; the whole stands in a title. */
export function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** Calls `work` with the newest value only: while one call is under way, later values wait and replace each other. */
export function latest(work) {
  let busy = false;
  let waiting = null;
  return async function ask(value) {
    waiting = { value };
    if (busy) return;
    busy = true;
    while (waiting) {
      const next = waiting.value;
      waiting = null;
      await work(next);
    }
    busy = false;
  };
}
