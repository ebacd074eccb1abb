/* What a reload of the page brings back: kept by the browser for this tab alone. */

const PREFIX = "sharpdnf.";

export function recall(name, otherwise = null) {
  try {
    const text = sessionStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Keeps a value. A value too large for the browser's store is left out: the page works on, and a reload starts without. */
export function remember(name, value) {
  try {
    if (value === null || value === undefined) sessionStorage.removeItem(PREFIX + name);
    else sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    sessionStorage.removeItem(PREFIX + name);
  }
}

/** Brings back what was typed into form fields, and keeps what is typed from now on. */
export function rememberFields(...fields) {
  for (const field of fields) {
    const kept = recall(`field.${field.id}`);
    const key = field.type === "checkbox" ? "checked" : "value";
    if (kept !== null) field[key] = kept;
    const keep = () => remember(`field.${field.id}`, field[key]);
    field.addEventListener("input", keep);
    field.addEventListener("change", keep);
  }
}
