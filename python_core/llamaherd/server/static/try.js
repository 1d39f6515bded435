// A box to try a prompt, with a schema and a thought.

import { headers } from "/dashboard.js";

const $ = (id) => document.getElementById(id);
let running = null; // AbortController of the request that runs

function body() {
  const made = {
    prompt: $("prompt").value,
    chat: $("chat").checked,
    max_tokens: Number($("max-tokens").value) || 200,
    stream: true,
  };
  if ($("model").value) made.model = $("model").value;
  const schema = $("schema").value.trim();
  if (schema) made.schema = JSON.parse(schema);
  if ($("thinking").value !== "") made.thinking = Number($("thinking").value) || false;
  return made;
}

async function send(event) {
  event.preventDefault();
  let sent;
  try {
    sent = JSON.stringify(body());
  } catch (error) {
    return say(`The schema is not JSON: ${error.message}`);
  }
  show("thought", "");
  show("answer", "");
  say("Waiting ...");
  $("send").disabled = true;
  $("stop").hidden = false;
  running = new AbortController();
  const start = performance.now();
  try {
    const response = await fetch("/generate", {
      method: "POST",
      headers: { ...headers(), "Content-Type": "application/json" },
      body: sent,
      signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    await read(response, start);
  } catch (error) {
    say(error.name === "AbortError" ? "Stopped." : error.message);
  } finally {
    running = null;
    $("send").disabled = false;
    $("stop").hidden = true;
  }
}

// Reads server-sent events, each of them one line of JSON.
async function read(response, start) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const each of events) take(each.replace(/^data: /, ""), start);
  }
}

function take(data, start) {
  if (data === "[DONE]") return;
  const event = JSON.parse(data);
  if (event.error) return say(event.error.message);
  if (event.thinking && !event.finish_reason) show("thought", $("thought").textContent + event.thinking);
  if (event.text) show("answer", $("answer").textContent + event.text);
  if (event.finish_reason) {
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    const { usage } = event;
    const n = usage ? `, ${usage.prompt_tokens} + ${usage.completion_tokens} tokens` : "";
    say(`${event.finish_reason}${n}, ${seconds} s`);
  } else {
    say("Answering ...");
  }
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
