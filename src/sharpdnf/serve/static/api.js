/* Talks to the service: JSON requests, streams of events, and the session that holds the tables. */

import { recall, remember } from "./remember.js";

/** An answer of the service that says what is wrong; `where` names the row, column or line if there is one. */
export class ServiceError extends Error {
  constructor(status, message, where = null) {
    super(message);
    this.status = status;
    this.where = where;
  }
}

/** Takes the token out of the address (#token=...), so that it is not shown, copied or kept in the history. */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  remember("token", token);
  history.replaceState(null, "", location.pathname + location.search);
}

function headers(extra) {
  const token = recall("token");
  return token ? { ...extra, Authorization: `Bearer ${token}` } : extra;
}

async function ask(method, path, { body, type, accept = "application/json", signal } = {}) {
  const json = body !== undefined && !type;
  const sent = { Accept: accept };
  if (body !== undefined) sent["Content-Type"] = type ?? "application/json";
  let reply;
  try {
    reply = await fetch(path, { method, headers: headers(sent), body: json ? JSON.stringify(body) : body, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "The service does not answer. Is it still running? Start it again, then try once more.");
  }
  if (!reply.ok) throw await problemOf(reply);
  return reply;
}

async function problemOf(reply) {
  let said = null;
  try {
    said = (await reply.json()).error;
  } catch {
    // An answer that is no JSON comes from something in between, such as a proxy.
  }
  return new ServiceError(reply.status, said?.message ?? `The service answered with status ${reply.status}.`, said?.where);
}

export async function get(path) {
  return (await ask("GET", path)).json();
}

export async function send(method, path, body, options = {}) {
  const reply = await ask(method, path, { body, ...options });
  return reply.status === 204 ? null : reply.json();
}

let known = null;

/** What the service allows; asked for once. */
export function limits() {
  known ??= get("/api/limits").catch(() => ({}));
  return known;
}

/** The bytes of an export, as a blob to be saved. */
export async function download(path) {
  return (await ask("GET", path, { accept: "*/*" })).blob();
}

/** Posts a question and calls `on[event](data)` for every event of the stream that answers it. */
export async function stream(path, body, on, signal) {
  const reply = await ask("POST", path, { body, accept: "text/event-stream", signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = parts.pop();
    for (const part of parts) handle(part, on);
  }
}

function handle(part, on) {
  let event = "message";
  const data = [];
  for (const line of part.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5));
  }
  if (!data.length) return;
  const said = JSON.parse(data.join("\n"));
  if (event === "error") throw new ServiceError(said.error.status, said.error.message, said.error.where);
  on[event]?.(said);
}

/** The path of the session, which is made when the first table needs it. */
export async function session() {
  if (!recall("session")) remember("session", (await send("POST", "/api/sessions", {})).session);
  return `/api/sessions/${encodeURIComponent(recall("session"))}`;
}

/** The tables of the session before a reload, or null where there was none or it has ended. */
export async function restored() {
  if (!recall("session")) return null;
  try {
    return (await get(await session())).tables;
  } catch (error) {
    if (error.status !== 404) throw error;
    remember("session", null);
    return null;
  }
}

/** Does something in the session. One that has ended meanwhile is replaced, and the error says that its tables are gone. */
export async function inSession(work) {
  const path = await session();
  try {
    return await work(path);
  } catch (error) {
    if (error.status !== 404 || !(await isGone(path))) throw error;
    remember("session", null);
    throw new ServiceError(404, "The session has ended and its tables with it. Load them again.");
  }
}

async function isGone(path) {
  try {
    await get(path);
    return false;
  } catch (error) {
    return error.status === 404;
  }
}
