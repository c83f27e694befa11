// Talks to the server: API key, errors as sentences, server-sent events.

const kKeyName = "fathom.key";
let key = readKey();
let askForKey = async () => null;  // set by the page; gives a key, or null if the user has none
let asking = null;                 // the question that is open

function readKey() {
  try {
    return sessionStorage.getItem(kKeyName) ?? "";
  } catch {
    return "";
  }
}

export const hasKey = () => key !== "";

export function setKey(value) {
  key = value;
  try {
    if (key) sessionStorage.setItem(kKeyName, key);
    else sessionStorage.removeItem(kKeyName);
  } catch {
    // Storage is switched off: the key lives as long as the page.
  }
}

export function onKeyNeeded(ask) {
  askForKey = ask;
}

export class ServerError extends Error {
  constructor(message, advice, status = 0, code = "") {
    super(message);
    this.advice = advice;  // what to do, a sentence
    this.status = status;
    this.code = code;
  }
}

function advice(status, code, retryAfter) {
  if (code === "context_length_exceeded") return "Start a new chat, or ask for fewer tokens.";
  if (code === "model_not_found") return "Choose another model at the top.";
  switch (status) {
    case 400: return "Change the settings or the message, then retry.";
    case 401: return "Retry to enter an API key.";
    case 413: return "The conversation is too long for this server: start a new chat.";
    case 429: return `Retry in ${retryAfter || "a few"} seconds.`;
    case 503: return `Retry in ${retryAfter || "a few"} seconds; the light at the top shows when the server is ready.`;
    case 504: return "Ask for fewer tokens, or raise the server’s --request-timeout.";
    default: return status >= 500 ? "Retry; the server’s log has more under the request’s id." : "Retry.";
  }
}

// The error of an answer's body, or of an event in a stream.
export function errorOf(body, status, retryAfter = "") {
  const error = body?.error ?? {};
  const where = error.param ? ` (${error.param})` : "";
  const message = error.message ? error.message + where : `The server answered ${status || "with an error"}.`;
  return new ServerError(message, advice(status, error.code, retryAfter), status, error.code ?? "");
}

async function send(path, { body, signal }) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  try {
    return await fetch(path, { method, headers, body, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached.", "Check that fathom serve runs, then retry.");
  }
}

// The response to a GET, or to a POST of `body` (JSON text). Asks for a key where one is needed;
// throws a ServerError for everything but success.
export async function request(path, { body, signal } = {}) {
  for (;;) {
    const response = await send(path, { body, signal });
    if (response.ok) return response;
    const problem = errorOf(await response.json().catch(() => null), response.status,
                            response.headers.get("Retry-After"));
    if (response.status !== 401) throw problem;
    asking ??= askForKey(hasKey() ? "The server does not know this key." : "This server asks for an API key.");
    const given = await asking;
    asking = null;
    if (given === null) throw problem;
    setKey(given);
  }
}

// The data of the events of a text/event-stream, one after the other.
export async function* events(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/);  // a \r at the end may be half of \r\n
      rest = lines.pop();
      for (const line of lines) {
        if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
