// Form to try a prompt, with an optional schema and a limit on thinking.

import { headers } from "/dashboard.js";
import { $, decimals, row } from "/elements.js";

let running = null; // AbortController of the request that runs

// Body of a request for an answer, or with a codebook, for the codes of the text.
function body(codebook) {
  const body = { chat: $("chat").checked };
  if ($("model").value) body.model = $("model").value;
  if ($("thinking").value !== "") body.thinking = Number($("thinking").value) || false;
  const prompt = $("prompt").value;
  if (codebook) return { ...body, texts: [prompt], codebook: parsed(codebook) };
  const schema = $("schema").value.trim();
  if (schema) body.schema = JSON.parse(schema);
  const most = Number($("max-tokens").value) || 200;
  return { ...body, prompt, max_tokens: most, stream: true };
}

function parsed(codebook) {
  try {
    return JSON.parse(codebook);
  } catch {
    return codebook; // YAML
  }
}

async function send(event) {
  event.preventDefault();
  const codebook = $("codebook").value.trim();
  let sent;
  try {
    sent = JSON.stringify(body(codebook));
  } catch (error) {
    return say(`The schema is not JSON: ${error.message}`);
  }
  show("thought", "");
  show("answer", "");
  $("codes").hidden = true;
  say("Waiting ...");
  $("send").disabled = true;
  $("stop").hidden = false;
  running = new AbortController();
  const start = performance.now();
  try {
    const response = await fetch(codebook ? "/v1/annotate" : "/generate", {
      method: "POST",
      headers: { ...headers(), "Content-Type": "application/json" },
      body: sent,
      signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    if (codebook) showCodes(await response.json(), start);
    else await read(response, start);
  } catch (error) {
    say(error.name === "AbortError" ? "Stopped." : error.message);
  } finally {
    running = null;
    $("send").disabled = false;
    $("stop").hidden = true;
  }
}

// Reads server-sent events; each event is one line of JSON.
async function read(response, start) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) take(event.replace(/^data: /, ""), start);
  }
}

function take(data, start) {
  if (data === "[DONE]") return;
  const event = JSON.parse(data);
  if (event.error) return say(event.error.message);
  if (event.thinking && !event.finish_reason) show("thought", $("thought").textContent + event.thinking);
  if (event.text) show("answer", $("answer").textContent + event.text);
  if (!event.finish_reason) return say("Answering ...");
  const { usage } = event;
  const n = usage ? `, ${usage.prompt_tokens} + ${usage.completion_tokens} tokens` : "";
  say(`${event.finish_reason}${n}, ${secondsSince(start)}`);
}

const secondsSince = (start) => `${((performance.now() - start) / 1000).toFixed(1)} s`;

// Shows the columns of the coded text.
function showCodes(answer, start) {
  const { index: _, ...columns } = answer.data[0];
  const rows = Object.entries(columns).filter(([, value]) => value !== null).map(([name, value]) => {
    const isProb = typeof value === "number" && !Number.isInteger(value);
    if (isProb) return row(name, decimals(value, 4));
    return row(name, typeof value === "string" ? value : JSON.stringify(value));
  });
  $("codes").replaceChildren(...rows);
  $("codes").hidden = $("answer-title").hidden = false;
  say([secondsSince(start), ...answer.notes].join(". "));
}

function show(id, text) {
  $(id).textContent = text;
  $(id).hidden = $(`${id}-title`).hidden = text === "";
}

function say(text) {
  $("told").textContent = text;
}

$("try").addEventListener("submit", send);
$("stop").addEventListener("click", () => running && running.abort());
