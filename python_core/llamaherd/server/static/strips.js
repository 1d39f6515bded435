// Slots over time: a row for each slot, a column for each request to the server. Parts of a
// cell show the seconds of prefill, decode and waiting; in the rest the slot was free.

import { element, setText } from "/elements.js";

const KINDS = ["prefill", "decode", "waiting"];
const MOST_ROWS = 64;
const WIDTH = 720;

export class Strips {
  constructor(box, nPoints) {
    this.box = box;
    this.nPoints = nPoints;
    this.models = new Map(); // state by the name of the model
  }

  // Adds a column with the times since the last request to the server.
  add(states) {
    const names = states.map((slots) => slots.model);
    if (names.join("\n") !== [...this.models.keys()].join("\n")) this.#begin(names);
    for (const slots of states) {
      const rows = [
        ...slots.prefixes.map((times, i) => [`prefix ${i + 1}`, times]),
        ...slots.prompts.map((times, i) => [`slot ${i + 1}`, times]),
      ];
      this.models.get(slots.model).add({ ...slots, rows });
    }
  }

  #begin(names) {
    const known = this.models;
    this.models = new Map(
      names.map((name) => [name, known.get(name) ?? new Strip(name, this.nPoints)]),
    );
    const strips = [...this.models.values()];
    for (const strip of strips) strip.title.hidden = strips.length === 1;
    this.box.replaceChildren(...strips.map((strip) => strip.figure));
  }
}

class Strip {
  constructor(name, nPoints) {
    this.nPoints = nPoints;
    this.columns = []; // maps from the row to the shares of the kinds
    this.before = null;
    this.title = element("figcaption", { text: name });
    this.canvas = element("canvas", { role: "img" });
    this.rest = element("p", { class: "quiet" });
    this.items = [...KINDS, "free"].map((kind) => element("li", { class: kind }));
    const legend = element("ul", { class: "legend slots" }, ...this.items);
    this.figure = element("figure", {}, this.title, this.canvas, legend, this.rest);
  }

  add(now) {
    const { before } = this;
    const seconds = before === null ? 0 : now.at - before.at;
    const isSame = before !== null && before.began === now.began && seconds > 0;
    const old = new Map(isSame ? before.rows : []);
    const column = new Map();
    for (const [row, times] of isSame ? now.rows : []) {
      const last = old.get(row) ?? [0, 0, 0];
      column.set(row, times.map((time, i) => Math.min(1, Math.max(0, time - last[i]) / seconds)));
    }
    this.columns.push(column);
    if (this.columns.length > this.nPoints) this.columns.shift();
    this.before = now;
    this.rows = now.rows.map(([row]) => row);
    this.#say(column, now);
    this.draw();
  }

  // The main activity of each slot in the last interval.
  #say(column, now) {
    const n = [0, 0, 0, 0];
    for (const row of this.rows) {
      const shares = column.get(row) ?? [0, 0, 0];
      const all = [...shares, 1 - shares[0] - shares[1] - shares[2]];
      n[all.indexOf(Math.max(...all))] += 1;
    }
    const words = [...KINDS, "free"].map((kind, i) => `${kind}: ${n[i]}`);
    this.items.forEach((item, i) => { setText(item, words[i]); });
    const name = `Slots, ${words.join(", ")}`;
    if (this.canvas.getAttribute("aria-label") !== name) this.canvas.setAttribute("aria-label", name);
    const hidden = this.rows.length - MOST_ROWS;
    setText(this.rest, this.rows.length
      ? this.#about(now.prefixes.length) + (hidden > 0 ? ` ${hidden} more are not shown.` : "")
      : "No slot was used since this page was opened.");
  }

  #about(nPrefixes) {
    const n = this.rows.length - nPrefixes;
    const before = nPrefixes ? `${nPrefixes} of shared prefixes, below them ` : "";
    return `A row is a slot: ${before}${n} slot${n === 1 ? "" : "s"} of prompts.`;
  }

  draw() {
    const rows = this.rows.slice(0, MOST_ROWS);
    const height = rows.length > 16 ? 8 : 14;
    this.canvas.width = WIDTH;
    this.canvas.height = Math.max(1, rows.length * height);
    this.canvas.style.height = `${rows.length * height}px`;
    this.canvas.hidden = rows.length === 0;
    const style = getComputedStyle(this.canvas);
    const colors = KINDS.map((kind) => style.getPropertyValue(`--${kind}`).trim());
    const paper = this.canvas.getContext("2d");
    const wide = WIDTH / this.nPoints;
    const first = this.nPoints - this.columns.length;
    this.columns.forEach((column, at) => {
      rows.forEach((row, i) => {
        let y = (i + 1) * height - 1;
        (column.get(row) ?? []).forEach((share, kind) => {
          const tall = share * (height - 2);
          y -= tall;
          paper.fillStyle = colors[kind];
          paper.fillRect((first + at) * wide, y, wide, tall);
        });
      });
    });
  }
}
