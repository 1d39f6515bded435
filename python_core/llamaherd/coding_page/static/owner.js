// The page of the person who runs the coding: progress, agreement, disagreements.

import { $, decimals, element, row, tableSection } from "/elements.js";
import { ask, download } from "/requests.js";

const EVERY_MS = 5000;
const SECTIONS = {
  coders: ["Progress", "Coder", "Coded", "Skipped", "Seconds a text", "Last code"],
  agreement: ["Agreement", "Whose", "Measure", "Value", "Texts"],
  disagreements: ["Disagreements", "Id", "Text", "Codes"],
  notes: ["Notes", "Coder", "Id", "Note"],
};

let timer = null;

function shown(value, digits) {
  return value === null ? "–" : decimals(value, digits);
}

function draw(found) {
  $("page").hidden = false;
  $("coders").replaceChildren(...found.coders.map((each) => row(
    each.is_of_ties ? `${each.coder} (ties)` : each.coder,
    `${each.n_coded} of ${each.n_texts}`,
    each.n_skipped,
    shown(each.median_s, 1),
    each.last_at ? new Date(each.last_at).toLocaleString() : "–",
  )));
  const measures = found.agreement.map((each) => row(
    each.part, each.measure, shown(each.value, 3), each.n_texts,
  ));
  $("agreement").replaceChildren(...(measures.length ? measures : [row("There is one coder.")]));
  const names = found.files.map((each) => each.name).join();
  if ($("downloads").dataset.names !== names) {
    $("downloads").dataset.names = names;
    $("downloads").replaceChildren(...found.files.map(downloadButton));
  }
  $("disagreements-title").textContent = `Disagreements (${found.disagreements.n})`;
  $("disagreements").replaceChildren(...found.disagreements.rows.map((each) => row(
    each.id, each.text,
    Object.entries(each.codes).map(([coder, code]) => `${coder}: ${code}`).join("\n"),
  )));
  $("notes").replaceChildren(...found.notes.map((each) => row(each.coder, each.id, each.note)));
}

// Requests the data again after a while, but only while the page is visible.
async function look() {
  clearTimeout(timer);
  try {
    draw(await ask("GET", "/api/overview"));
    $("problem").hidden = true;
  } catch (error) {
    complain(error);
  }
  if (!document.hidden) timer = setTimeout(look, EVERY_MS);
}

function complain(error) {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

function downloadButton({ name, field }) {
  const text = field === null ? "Download the codes" : `Download ${field}`;
  const button = element("button", { type: "button", class: "main", text });
  const path = field === null ? "/api/export" : `/api/export?field=${encodeURIComponent(field)}`;
  button.addEventListener("click", () => download(path, name).catch(complain));
  return button;
}

$("sections").replaceChildren(...Object.entries(SECTIONS).map(tableSection));
$("stop").addEventListener("click", async () => {
  if (!confirm("End the page for all coders? All codes are saved.")) return;
  try {
    await ask("POST", "/api/stop", {});
    clearTimeout(timer);
    $("message").textContent = "The page has ended. You can close it.";
    $("page").hidden = true;
  } catch (error) {
    complain(error);
  }
});
document.addEventListener("visibilitychange", () => document.hidden || look());
addEventListener("hashchange", () => location.reload());
look();
