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

function formatted(value, digits) {
  return value === null ? "–" : decimals(value, digits);
}

function draw(report) {
  $("page").hidden = false;
  $("coders").replaceChildren(...report.coders.map((progress) => row(
    progress.is_of_ties ? `${progress.coder} (ties)` : progress.coder,
    `${progress.n_coded} of ${progress.n_texts}`,
    progress.n_skipped,
    formatted(progress.median_s, 1),
    progress.last_at ? new Date(progress.last_at).toLocaleString() : "–",
  )));
  const measures = report.agreement.map((line) => row(
    line.part, line.measure, formatted(line.value, 3), line.n_texts,
  ));
  $("agreement").replaceChildren(...(measures.length ? measures : [row("There is one coder.")]));
  const names = report.files.map((file) => file.name).join();
  if ($("downloads").dataset.names !== names) {
    $("downloads").dataset.names = names;
    $("downloads").replaceChildren(...report.files.map(downloadButton));
  }
  $("disagreements-title").textContent = `Disagreements (${report.disagreements.n})`;
  $("disagreements").replaceChildren(...report.disagreements.rows.map((line) => row(
    line.id, line.text,
    Object.entries(line.codes).map(([coder, code]) => `${coder}: ${code}`).join("\n"),
  )));
  $("notes").replaceChildren(...report.notes.map((line) => row(line.coder, line.id, line.note)));
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
