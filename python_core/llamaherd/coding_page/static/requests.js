// Requests to the server. The key is in the part of the address after "#", which browsers
// never send by themselves; the script sends the key in a header.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = decodeURIComponent(location.hash.slice(1));

function headersOf(coder, hasBody) {
  const headers = {};
  if (key) headers["Authorization"] = `Bearer ${key}`;
  if (coder) headers["X-Coder"] = encodeURIComponent(coder);
  if (hasBody) headers["Content-Type"] = "application/json";
  return headers;
}

async function answered(method, path, body, coder) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: headersOf(coder, body !== undefined),
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new Refused(0, "The server does not answer. Nothing was lost: try again.");
  }
  if (response.ok) return response;
  let message = `The server answers with status ${response.status}.`;
  try {
    message = (await response.json()).error.message;
  } catch { /* no JSON: the status has to do */ }
  throw new Refused(response.status, message);
}

export async function ask(method, path, body, coder) {
  return (await answered(method, path, body, coder)).json();
}

export async function download(path, name) {
  const content = await (await answered("GET", path)).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Creates an element with a text, which is never parsed as HTML.
export function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") made.textContent = value;
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Shows a number with `digits` decimals; with more if it would look like 0 or 1 but is not, and
// never as -0.00, as in engine/core/phrases.py.
export function decimals(value, digits) {
  const gap = Math.min(Math.abs(value), 1 - Math.abs(value));
  let more = digits;
  while (gap > 1e-9 && more < 9 && [0, 1].includes(Math.abs(Number(value.toFixed(more))))) more += 1;
  return value.toFixed(more).replace(/^-(0[.]?0*)$/, "$1");
}
