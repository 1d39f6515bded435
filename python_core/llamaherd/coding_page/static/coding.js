// The page of a coder: a text, the labels, and the codes so far.

import { $, element } from "/elements.js";
import { FieldForm } from "/fields.js";
import { Finder } from "/finder.js";
import { Problem, addKey, described, passageItem } from "/inputs.js";
import { ask } from "/requests.js";
import { MarkedText } from "/texts.js";

const SHORTCUTS = "llamaherd-shortcuts";
const MANY = 10; // labels from which on there is a field to find one
const SKIPPED = "You skipped this text.";

let book; // codebook, as the server shows it
let coder = null; // name of the coder, if no key is needed
let current = null; // text that is shown
let marked = null; // its passages
let chosen = new Set(); // several labels
let form = null; // answers by field
let lastEntry = 0; // number of the code or skip that an undo would undo
let isBusy = false;
let isStale = false; // whether the last request came from a page that shows earlier codes
let stored = ""; // entries of the text when it was shown
let startedAt = 0;
let hiddenAt = null;

// ---- start ----

async function start() {
  try {
    book = await ask("GET", "/api/start");
  } catch (error) {
    return complain(error);
  }
  $("question").textContent = book.question;
  $("shortcuts").checked = localStorage.getItem(SHORTCUTS) !== "off";
  drawLabels();
  drawExamples();
  for (const [parts, isThere] of Object.entries({
    ".of-spans": selects(), ".of-fields": book.kind === "fields", ".of-many": hasMany(),
    "#passages": book.kind === "spans", "#save": book.kind !== "one",
    "#number-field": book.kind === "number",
  })) for (const part of document.querySelectorAll(parts)) part.hidden = !isThere;
  coder = book.coder || (book.coders.length === 1 ? book.coders[0] : null);
  if (coder) return look();
  $("names").replaceChildren(...book.coders.map(nameButton));
  $("choose").hidden = false;
  $("names").querySelector("button").focus();
}

// Whether coders select words: for passages, and for fields that quote the text.
function selects() {
  const isQuote = (field) => field.kind === "passage" || field.kind === "passages";
  return book.kind === "spans" || book.fields.some(isQuote);
}

const focusText = () => $("text").focus({ preventScroll: true });

// Functions of the page that the form calls.
const ofForm = {
  quote: (place) => marked.quote(place),
  place: () => marked.take(),
  change: () => draw(),
  say: (text) => say(text),
  focusText,
};

function nameButton(name) {
  const button = element("button", { type: "button", text: name });
  button.addEventListener("click", () => {
    coder = name;
    look();
  });
  return element("li", {}, button);
}

function drawLabels() {
  if (book.kind === "fields") {
    $("labels-title").textContent = "Fields";
    form = new FieldForm($("fields"), book.fields, ofForm);
    return;
  }
  const isShort = book.kind !== "number" || book.labels.length <= 11;
  const labels = book.labels.filter((label) => isShort || label.definition);
  $("labels").replaceChildren(...labels.map(labelButton));
}

const hasMany = () => book.labels.length >= MANY && !["fields", "number"].includes(book.kind);

function labelButton(label) {
  const i = book.labels.indexOf(label);
  const button = element("button", { type: "button", class: "label" });
  button.dataset.label = label.name;
  if (book.kind === "spans") button.classList.add(`l${i % 9}`);
  if (book.kind !== "spans") button.setAttribute("aria-pressed", "false");
  const sign = keyOf(i);
  if (sign) addKey(button, sign);
  button.append(described(label));
  button.addEventListener("click", () => choose(label.name));
  return element("li", {}, button);
}

// The browser drops the selected words when the field gets the focus.
function keepSelection() {
  if (!selects() || !marked || marked.picked) return;
  marked.picked = marked.selected();
  draw();
}

const finder = new Finder($("find"), $("labels"), {
  choose, say, keepSelection, focusText,
  announce: (n) => announce(countOf(n, "label")),
});

// The key of a label: numbers of a scale have their own digit.
function keyOf(i) {
  if (book.kind !== "number") return i < 9 ? String(i + 1) : "";
  return hasDigits() ? book.labels[i].name : "";
}

const hasDigits = () => book.labels.every((label) => /^[0-9]$/.test(label.name));

function drawExamples() {
  $("examples").hidden = book.examples.length === 0;
  $("example-list").replaceChildren(
    ...book.examples.flatMap((example) => {
      const code = codeText(example.label) + (example.reason ? ` (${example.reason})` : "");
      return [element("dt", { text: example.text }), element("dd", { text: code })];
    }),
  );
}

function codeText(code) {
  if (typeof code === "string") return code;
  if (Array.isArray(code)) return code.join("; ") || "none";
  if (Array.isArray(code?.spans)) {
    return code.spans.map((span) => `${span.label}: ${span.quote}`).join("; ") || "none";
  }
  const fields = Object.entries(code ?? {}).map(([name, value]) => `${name}: ${codeText(value)}`);
  return typeof code === "object" ? fields.join("; ") : String(code);
}

// ---- a text ----

// Shows a text, and a message about the text before it.
function show(view, message = "") {
  if (!view) return;
  const { progress } = view;
  lastEntry = view.last_entry;
  $("choose").hidden = true;
  $("progress").hidden = false;
  $("bar").max = Math.max(progress.n_texts, 1);
  $("bar").value = progress.n_coded;
  const skipped = progress.n_skipped ? `, ${progress.n_skipped} skipped` : "";
  $("counts").textContent = `${progress.n_coded} of ${progress.n_texts} coded${skipped}`;
  $("who").textContent = coder;
  $("undo").disabled = $("undo-last").disabled = !view.can_undo;
  current = view.text;
  $("work").hidden = !current;
  $("done").hidden = Boolean(current);
  $("message").textContent = current?.is_skipped ? SKIPPED : message;
  if (!current) return finish(progress, message);
  const place = `Text ${current.position + 1} of ${progress.n_texts}`;
  $("text").setAttribute("aria-label", place);
  $("back").disabled = current.position === 0;
  $("forward").disabled = current.position + 1 >= progress.n_texts;
  $("note").value = current.note;
  $("number").value = book.kind === "number" && current.value ? current.value : "";
  marked = new MarkedText($("text"), current.text);
  if (book.kind === "spans" && current.value) marked.spans = [...current.value];
  chosen = new Set(book.kind === "several" ? current.value || [] : []);
  marked.draw([]); // the text that `save` stores a code for is visible from here on
  if (form) form.show(current.value);
  draw();
  stored = entries();
  // Screen readers say nothing about the focused element when only its content changes.
  const code = current.value === null ? "" : `Your code: ${saidOf(current.value)}.`;
  announce(message && `${message}.`, `${place}.`, current.is_skipped ? SKIPPED : code, current.text);
  startedAt = performance.now();
  hiddenAt = document.hidden ? startedAt : null;
  $("text").scrollTop = 0;
  document.querySelector(".codebook").scrollTop = 0;
  finder.end();
  scrollTo(0, 0);
  focusText();
}

function finish(progress, message) {
  const isNone = progress.n_texts === 0;
  $("done-title").textContent = isNone ? "No texts to code yet" : "All texts are coded";
  $("done-text").textContent = isNone
    ? "Texts on which the other coders disagree will be here."
    : "Thank you. Everything is saved; you can close this page.";
  announce(message && `${message}.`, $("done-text").textContent);
  $("done-title").focus();
}

function draw() {
  const isForm = book.kind === "fields";
  if (isForm) marked.spans = form.spans();
  marked.draw((isForm ? book.fields : book.labels).map((label) => label.name));
  for (const button of document.querySelectorAll("button.label[aria-pressed]")) {
    const { label } = button.dataset;
    const isOn = book.kind === "several" ? chosen.has(label) : current.value === label;
    button.setAttribute("aria-pressed", String(isOn));
  }
  $("no-spans").hidden = marked.spans.length > 0;
  $("spans").replaceChildren(...marked.spans.map(spanItem));
}

function spanItem(span) {
  return passageItem(span.label, marked.quote(span), () => {
    marked.spans = marked.spans.filter((other) => other !== span);
    draw();
    $("text").focus();
  }, element("strong", { text: span.label }));
}

function choose(label) {
  if (!current) return;
  if (book.kind === "one" || book.kind === "number") return save(label);
  if (book.kind === "several") {
    if (!chosen.delete(label)) chosen.add(label);
    say(`${label} ${chosen.has(label) ? "chosen" : "removed"}`);
    return draw();
  }
  if (book.max_spans && marked.spans.length >= book.max_spans) {
    return say(`A text has at most ${book.max_spans} passages.`);
  }
  say(marked.add(label) ? `${label} added` : "Select words of the text first.");
  draw();
  $("text").focus();
}

function save(label) {
  let value = label;
  if (book.kind === "fields") {
    try {
      value = form.value();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return form.complain(error);
    }
    return act("/api/code", { value }, "Saved");
  }
  if (book.kind === "several") value = [...chosen];
  if (book.kind === "spans") value = marked.spans;
  if (book.kind === "number" && value === undefined) {
    value = $("number").value.trim().replace(",", ".");
    if (!book.labels.some((label) => label.name === value)) {
      return say(`The number must be on the scale from ${book.labels[0].name} to ${book.labels.at(-1).name}.`);
    }
  }
  return act("/api/code", { value }, `Saved: ${saidOf(value)}`);
}

const countOf = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

function saidOf(value) {
  if (typeof value === "string") return value;
  if (book.kind === "spans") return countOf(value.length, "passage");
  if (book.kind === "fields") return codeText(value);
  return value.join(", ") || "none";
}

const skip = () => act("/api/skip", {}, "Skipped");

// Stores a code or a skip. If storing fails, the page keeps the selected labels.
async function act(path, body, message) {
  if (!current) return;
  const now = hiddenAt ?? performance.now();
  const sent = {
    ...body, i: current.i, seen: current.entry, note: $("note").value,
    seconds: (now - startedAt) / 1000,
  };
  await store(path, sent, message);
}

// Everything that the coder has entered for the text, to compare it with what is stored.
function entries() {
  const inputs = [$("note"), $("number"), ...$("fields").querySelectorAll("input, textarea")];
  return JSON.stringify([inputs.map((e) => [e.value, e.checked]), [...chosen], marked.spans]);
}

const isChanged = () => Boolean(current) && entries() !== stored;

const mayLeave = () => !isChanged()
  || confirm("What you entered for this text is not saved. Leave the text without it?");

async function undo() {
  if (!mayLeave()) return;
  await store("/api/undo", { seen: lastEntry }, "Undone");
}

// Another tab of the coder may have stored codes that this page does not show: then nothing
// is stored, and the page shows the codes of now.
async function store(path, sent, message) {
  const view = await attempt(() => ask("POST", path, sent, coder));
  if (view) return show(view, message);
  if (!isStale) return;
  const problem = $("problem").textContent;
  await look(current?.position, problem);
  complain({ message: problem });
}

const go = async (step) => mayLeave() && look(current.position + step);

// Shows the text at a position; without a position, the next one to code.
async function look(position, message) {
  const path = position === undefined ? "/api/text" : `/api/text?position=${position}`;
  show(await attempt(() => ask("GET", path, undefined, coder)), message);
}

// Only one request at a time, so that a key that is held down codes only one text.
async function attempt(work) {
  if (isBusy) return null;
  isBusy = true;
  isStale = false;
  $("problem").hidden = true; // a screen reader says an equal problem only if it appears again
  try {
    return await work();
  } catch (error) {
    isStale = error.status === 409; // another tab stored codes since
    complain(error);
    return null;
  } finally {
    isBusy = false;
  }
}

function complain(error) {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

function say(text) {
  $("message").textContent = text;
  announce(text);
}

// Lets a screen reader say something. It would not repeat an equal text.
function announce(...texts) {
  const text = texts.filter(Boolean).join(" ");
  const spoken = $("spoken");
  spoken.textContent = spoken.textContent === text ? `${text}\u00a0` : text;
}

// ---- keys ----

const COMMANDS = {
  s: () => skip(),
  u: () => undo(),
  b: () => current && current.position > 0 && go(-1),
  f: () => current && !$("forward").disabled && go(1),
  n: () => $("note").focus(),
  "/": () => hasMany() && finder.start(),
};

const OF_SPANS = {
  ArrowLeft: (event) => marked.move(-1, event.shiftKey),
  ArrowRight: (event) => marked.move(1, event.shiftKey),
  ",": () => marked.shift(0, -1),
  ".": () => marked.shift(0, 1),
  ";": () => marked.shift(-1, 0),
  ":": () => marked.shift(1, 0),
  Delete: () => (form ? form.clear() : marked.spans.pop()),
};

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.isComposing || !coder) {
    if (!event.key.startsWith("Arrow")) return;
  }
  const isField = event.target.matches("textarea, input:not([type=checkbox], [type=radio])");
  if (event.key === "Escape" && isField) return $("text").focus();
  if (event.key === "Enter") return onEnter(event, isField);
  if (isField) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "z") {
    event.preventDefault();
    return undo();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !$("shortcuts").checked) return;
  if (onKey(event)) event.preventDefault();
});

function onEnter(event, isField) {
  const isOfForm = Boolean(event.target.closest("#fields")) && !event.target.matches("button");
  if (!current) return;
  if (isOfForm) {
    if (event.target.matches("textarea") && !event.ctrlKey) return;
  } else if (event.target.matches("button, summary, textarea, [type=checkbox]")) return;
  else if (book.kind === "one" || (isField && event.target.id !== "number")) return;
  event.preventDefault();
  save();
}

function onKey(event) {
  if (!current) return event.key === "u" && (undo(), true);
  if (/^[0-9]$/.test(event.key)) return onDigit(event.key);
  if (selects() && event.key in OF_SPANS && !event.target.matches("[type=radio]")) {
    OF_SPANS[event.key](event);
    if (marked.picked) say(marked.quote(marked.picked));
    draw();
    return true;
  }
  const command = COMMANDS[event.key.toLowerCase()];
  if (command) command();
  return Boolean(command);
}

function onDigit(digit) {
  if (form) return form.key(Number(digit));
  if (book.kind === "number" && !hasDigits()) {
    $("number").focus();
    return false; // the field gets the digit
  }
  const i = book.labels.findIndex((_, at) => keyOf(at) === digit);
  if (i < 0) return false;
  choose(book.labels[i].name);
  return true;
}

for (const [id, command] of Object.entries({
  save: () => save(), skip, undo, "undo-last": undo,
  back: () => go(-1), forward: () => go(1), look: () => look(),
})) {
  $(id).addEventListener("click", command);
}
$("shortcuts").addEventListener("change", () => {
  localStorage.setItem(SHORTCUTS, $("shortcuts").checked ? "on" : "off");
});
$("text").addEventListener("mouseup", () => {
  if (selects() && marked.picked && marked.selected()) marked.picked = null;
});
// Time in another tab is not time spent on the text.
document.addEventListener("visibilitychange", () => {
  const now = performance.now();
  if (document.hidden) hiddenAt = now;
  else if (hiddenAt !== null) {
    startedAt += now - hiddenAt;
    hiddenAt = null;
  }
});
addEventListener("beforeunload", (event) => isChanged() && event.preventDefault());
addEventListener("hashchange", () => location.reload());

start();
