// Current state of the server. Only the page stores the last minutes, not the server.

import { Chart, format } from "/charts.js";
import { $, element, percent, row, setChildren, setText, tableSection } from "/elements.js";
import { Strips } from "/strips.js";

const EVERY_MS = 1000;
const N_POINTS = 180;
const KEY = "llamaherd-key";
const TABLES = {
  models: ["Models", "Model", "State", "Running", "Waiting", "Reserved"],
  batches: ["Batches", "Batch", "State", "Requests", "Time left"],
};

const slots = new Chart($("slots"), ["running", "waiting"], N_POINTS);
const tokens = new Chart($("tokens"), ["of prompts", "generated"], N_POINTS);
const strips = new Strips($("strips"), N_POINTS);
let before = null; // data of the last look, and its time
let timer = null;

export function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function look() {
  clearTimeout(timer);
  try {
    const response = await fetch("/dashboard.json", { headers: headers(), cache: "no-store" });
    if (response.status === 401) return askForKey();
    if (!response.ok) throw new Error(`The server answers with status ${response.status}.`);
    draw(await response.json());
    $("problem").hidden = true;
    $("key-form").hidden = true;
    $("page").hidden = false;
  } catch (error) {
    before = null;
    complain(error instanceof TypeError ? "The server does not answer." : error.message);
  }
  if (!document.hidden) timer = setTimeout(look, EVERY_MS);
}

function askForKey() {
  const isWrong = sessionStorage.getItem(KEY) !== null;
  sessionStorage.removeItem(KEY);
  $("key-form").hidden = false;
  if (isWrong) complain("This key is wrong.");
  $("key").focus();
}

function complain(text) {
  setText($("problem"), text);
  $("problem").hidden = false;
}

// Counts per second since the last request; null before the second request.
function rate(data, name, seconds) {
  const difference = data.counts[name] - before.data.counts[name];
  return difference < 0 ? null : difference / seconds;
}

function draw(data) {
  const now = performance.now();
  // Aliases are loaded with their model. With several models, each has its own state.
  const several = data.states.some((model) => model.memory > 0 || model.state !== "loaded");
  const name = several ? `${data.models.length} models` : data.models[0];
  setText($("title"), name);
  if (document.title !== `${name} - llamaherd`) document.title = `${name} - llamaherd`;
  models(several ? data.states : []);
  setText($("about"), `llamaherd ${data.version}, running for ${duration(data.uptime_s)}`);
  const seconds = before ? (now - before.at) / 1000 : 0;
  const rates = before
    ? ["n_prefill", "n_generated"].map((name) => rate(data, name, seconds))
    : [null, null];
  const { load, counts, memory } = data;
  slots.add([load.n_running, load.n_waiting]);
  tokens.add(rates);
  strips.add(data.slots);
  batches(data.batches);
  const nPrompt = counts.n_prefill + counts.n_reused;
  figures({
    "Running": String(load.n_running),
    "Waiting": String(load.n_waiting),
    "Open requests": String(data.n_requests),
    "Prompt tokens/s": rates[0] === null ? "–" : format(rates[0]),
    "Generated tokens/s": rates[1] === null ? "–" : format(rates[1]),
    "Prompts per batch": counts.n_batches ? format(counts.n_clients / counts.n_batches) : "–",
    "Kept prefixes": String(load.n_prefixes),
    "Prompt tokens reused": nPrompt ? percent(counts.n_reused / nPrompt) : "–",
    "KV cache": `${load.n_ctx.toLocaleString("en")} tokens`,
    "Memory of the server": bytes(memory.process),
    "Memory left": bytes(memory.available),
  });
  before = { data, at: now };
}

function models(states) {
  $("models-section").hidden = states.length === 0;
  setChildren($("models"), states.map((model) => {
    const name = model.parent ? `${model.name} (adapter of ${model.parent})` : model.name;
    const memory = model.memory ? bytes(model.memory) : "–";
    return row(name, model.state, model.n_running, model.n_waiting, memory);
  }));
  const names = states.map((model) => model.name);
  const choice = $("model");
  $("model-label").hidden = names.length === 0;
  if (names.join() === [...choice.options].map((option) => option.value).join()) return;
  choice.replaceChildren(...names.map((name) => new Option(name, name)));
}

function batches(progress) {
  $("batches-section").hidden = progress.length === 0;
  setChildren($("batches"), progress.map(batchRow));
}

function batchRow(batch) {
  const bar = element("progress", {
    max: Math.max(1, batch.n_total), value: batch.n_done, "aria-label": `Progress of ${batch.id}`,
  });
  const [n, all] = [batch.n_done, batch.n_total].map((count) => count.toLocaleString("en"));
  const left = batch.left_s === null ? "–" : duration(batch.left_s);
  const status = batch.problem || batch.status.replace("_", " ");
  return row(`${batch.id} (${batch.endpoint})`, status, [bar, ` ${n} of ${all}`], left);
}

function figures(values) {
  setChildren($("figures"), Object.entries(values).map(([name, value]) => (
    element("div", {}, element("dt", { text: name }), element("dd", { text: value }))
  )));
}

function bytes(n) {
  return n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : `${Math.round(n / 1e6)} MB`;
}

function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key").value.trim());
  $("key").value = "";
  look();
});
$("tables").replaceChildren(...Object.entries(TABLES).map(tableSection));
document.addEventListener("visibilitychange", () => document.hidden || look());
look();
