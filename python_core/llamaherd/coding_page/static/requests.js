// Requests to the server. The key is in the part of the address after "#", which browsers
// never send by themselves; the script sends the key in a header.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = decodeURIComponent(location.hash.slice(1));

async function answered(method, path, body, coder) {
  const headers = {};
  if (key) headers["Authorization"] = `Bearer ${key}`;
  if (coder) headers["X-Coder"] = encodeURIComponent(coder);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method, headers, body: JSON.stringify(body), cache: "no-store",
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
