// Texts with passages. Positions are numbers of Unicode code points, as in Python, not of
// UTF-16 units, as in JavaScript.

import { element } from "/elements.js";

export class MarkedText {
  constructor(box, text) {
    this.box = box;
    this.points = Array.from(text);
    this.spans = [];
    this.picked = null; // {start, end} of the selection by keys
    this.text = text;
  }

  // Start and end of each word, computed when keys first move the selection.
  get words() {
    this.wordPlaces ??= wordsOf(this.text);
    return this.wordPlaces;
  }

  quote(span) {
    return this.points.slice(span.start, span.end).join("");
  }

  // Draws the text in pieces, split at all starts and ends of passages.
  draw(labels) {
    const places = new Set([0, this.points.length]);
    const all = this.picked ? [...this.spans, this.picked] : this.spans;
    for (const span of all) places.add(span.start).add(span.end);
    const sorted = [...places].sort((a, b) => a - b);
    const pieces = [];
    for (let i = 0; i + 1 < sorted.length; i += 1) {
      pieces.push(this.#piece(sorted[i], sorted[i + 1], labels));
    }
    this.box.replaceChildren(...pieces);
    const picked = this.box.querySelector(".picked");
    if (picked) picked.scrollIntoView({ block: "nearest" });
  }

  #piece(start, end, labels) {
    const covers = (span) => span.start <= start && end <= span.end;
    const around = this.spans.filter(covers);
    const piece = element("span", { text: this.points.slice(start, end).join("") });
    if (this.picked && covers(this.picked)) piece.className = "picked";
    return around.reduce((inner, span) => {
      const number = labels.indexOf(span.label);
      const mark = element("mark", { class: `l${number % 9}`, title: span.label }, inner);
      if (span.end === end) mark.dataset.number = String(number + 1);
      return mark;
    }, piece);
  }

  // Returns the selection by mouse, finger or the browser's caret; null if none is in the text.
  selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    if (!this.box.contains(range.commonAncestorContainer)) return null;
    const start = this.#placeOf(range.startContainer, range.startOffset);
    const end = this.#placeOf(range.endContainer, range.endOffset);
    return this.#trimmed(start, end);
  }

  #placeOf(node, offset) {
    const before = document.createRange();
    before.setStart(this.box, 0);
    before.setEnd(node, offset);
    return Array.from(before.toString()).length;
  }

  #trimmed(start, end) {
    const isSpace = (i) => /\s/u.test(this.points[i]);
    while (start < end && isSpace(start)) start += 1;
    while (end > start && isSpace(end - 1)) end -= 1;
    return start < end ? { start, end } : null;
  }

  // Moves the selection by a word; with `extends`, its beginning is kept.
  move(step, extend) {
    if (!this.words.length) return;
    const last = this.words.length - 1;
    const at = this.#wordAt(step);
    const i = Math.max(0, Math.min(last, at));
    const [start, end] = this.words[i];
    if (!extend || !this.picked) this.picked = { start, end };
    else if (end > this.picked.start) this.picked = { start: this.picked.start, end };
  }

  #wordAt(step) {
    if (!this.picked) return step > 0 ? 0 : this.words.length - 1;
    const at = this.words.findIndex(([, end]) => end >= this.picked.end);
    return (at < 0 ? this.words.length - 1 : at) + step;
  }

  // Moves one limit of the selection by a character.
  shift(startStep, endStep) {
    if (!this.picked) return;
    const start = this.picked.start + startStep;
    const end = this.picked.end + endStep;
    if (start >= 0 && start < end && end <= this.points.length) this.picked = { start, end };
  }

  // Ends the selection and returns its start and end; returns null without a selection.
  take() {
    const place = this.picked || this.selected();
    if (!place) return null;
    this.picked = null;
    getSelection().removeAllRanges();
    return { start: place.start, end: place.end };
  }

  add(label) {
    const place = this.take();
    if (!place) return false;
    const isThere = this.spans.some(
      (span) => span.start === place.start && span.end === place.end && span.label === label,
    );
    if (!isThere) this.spans.push({ ...place, label });
    return true;
  }
}

function wordsOf(text) {
  const words = [];
  let at = 0;
  for (const { segment, isWordLike } of segmentsOf(text)) {
    const length = Array.from(segment).length;
    if (isWordLike) words.push([at, at + length]);
    at += length;
  }
  return words;
}

function segmentsOf(text) {
  if (Intl.Segmenter) return new Intl.Segmenter(undefined, { granularity: "word" }).segment(text);
  return text.split(/(\s+)/u).map((segment) => ({ segment, isWordLike: /\S/u.test(segment) }));
}
