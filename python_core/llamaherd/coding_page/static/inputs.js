// Inputs of the fields of a codebook: levels, numbers and texts.

import { Input, NOT_APPLIED, Problem } from "/field_input.js";
import { Passages } from "/passages.js";
import { element } from "/requests.js";

const MAX_KEYS = 9;

const KINDS = {
  choice: (...of) => new Levels(...of),
  choices: (...of) => new Levels(...of),
  passage: (...of) => new Passages(...of),
  passages: (...of) => new Passages(...of),
};

export function inputOf(field, i, form) {
  return (KINDS[field.kind] ?? ((...of) => new Typed(...of)))(field, i, form);
}

// Input for one level, or for any number of levels.
class Levels extends Input {
  constructor(field, i, form) {
    super(field, i, form);
    this.isOne = field.kind === "choice";
    const levels = [...field.levels];
    if (field.is_nullable && this.isOne) {
      levels.push({ value: null, name: NOT_APPLIED, definition: "" });
    }
    this.levels = levels;
    // The key of a one-digit level is this digit.
    this.areDigits = levels.every((each) => /^[0-9]$/.test(each.name));
    this.none = null;
    const list = element("ul", { class: "plain levels" });
    this.boxes = levels.map((level, at) => this.#item(list, level, at));
    if (!this.isOne) {
      const level = { name: "none of these", definition: "" };
      this.none = this.#item(list, level, levels.length);
    }
    this.box.append(list);
    list.addEventListener("change", (event) => this.#changed(event.target));
    if (field.is_nullable && !this.isOne) this.addWhole(NOT_APPLIED, null);
  }

  #item(list, level, at) {
    const type = this.isOne ? "radio" : "checkbox";
    const box = element("input", { type, name: this.name });
    const label = element("label", { class: "level" }, box);
    const sign = this.areDigits ? level.name : String(at + 1);
    if (sign.length === 1 && at <= MAX_KEYS) {
      label.append(element("kbd", { text: sign, "aria-hidden": "true" }));
      box.setAttribute("aria-keyshortcuts", sign);
    }
    const words = element("span", {}, element("span", { class: "name", text: level.name }));
    if (level.definition) {
      words.append(element("span", { class: "definition", text: level.definition }));
    }
    label.append(words);
    list.append(element("li", {}, label));
    return box;
  }

  #changed(box) {
    if (this.none && box === this.none && box.checked) {
      for (const each of this.boxes) each.checked = false;
    } else if (this.none && box.checked) this.none.checked = false;
    if (box.checked) this.setWhole();
    this.form.page.change();
  }

  clearEntries() {
    for (const each of this.boxes) each.checked = false;
    if (this.none) this.none.checked = false;
  }

  get isAnswered() {
    return this.get() !== undefined;
  }

  get() {
    if (this.whole !== undefined) return this.whole;
    const chosen = this.levels.filter((_, at) => this.boxes[at].checked).map((each) => each.value);
    if (this.isOne) return chosen.length ? chosen[0] : undefined;
    return chosen.length || this.none.checked ? chosen : undefined;
  }

  set(value) {
    const has = (level) => (this.isOne ? level.value === value : value?.includes(level.value));
    this.levels.forEach((level, at) => { this.boxes[at].checked = Boolean(has(level)); });
    if (this.none) this.none.checked = Array.isArray(value) && value.length === 0;
    this.setWhole(value);
  }

  focus() {
    (this.boxes.find((each) => each.checked) ?? this.boxes[0]).focus();
  }

  key(digit) {
    const boxes = this.none ? [...this.boxes, this.none] : this.boxes;
    const isOwn = (each) => each.name === String(digit);
    const at = this.areDigits ? this.levels.findIndex(isOwn) : digit - 1;
    const box = boxes[at];
    if (!box) return false;
    box.checked = this.isOne || !box.checked;
    this.#changed(box);
    const name = this.levels[at]?.name ?? "none of these";
    this.form.page.say(`${this.field.title}: ${name}${box.checked ? "" : " removed"}`);
    if (this.isOne) this.form.next();
    return true;
  }
}

// Input for a number, a text, lines or JSON.
class Typed extends Input {
  constructor(field, i, form) {
    super(field, i, form);
    this.isTyped = true;
    const isLong = field.kind === "lines" || field.kind === "json";
    const isNumber = field.kind === "integer" || field.kind === "number";
    this.input = element(isLong ? "textarea" : "input", { autocomplete: "off" });
    if (isLong) this.input.rows = 3;
    if (isNumber) this.input.inputMode = field.kind === "integer" ? "numeric" : "decimal";
    this.input.setAttribute("aria-label", field.title);
    const about = hintOf(field);
    if (about) {
      this.box.append(element("p", { class: "quiet", id: `hint-${this.name}`, text: about }));
      this.input.setAttribute("aria-describedby", `hint-${this.name}`);
    }
    this.box.append(this.input);
    if (field.kind === "lines") this.addWhole("none in this text", []);
    if (field.is_nullable) this.addWhole(NOT_APPLIED, null);
    this.input.addEventListener("input", () => {
      this.stored = null;
      this.setWhole();
    });
    this.stored = null; // {value} that is shown and not edited
  }

  clearEntries() {
    this.input.value = "";
    this.stored = null;
  }

  get isAnswered() {
    return Boolean(this.whole !== undefined || this.stored || this.input.value.trim());
  }

  // Returns a stored value unchanged until it is edited: a box cannot show every text.
  get() {
    if (this.whole !== undefined) return this.whole;
    if (this.stored) return this.stored.value;
    const text = this.input.value.trim();
    if (!text) return undefined;
    const { kind } = this.field;
    if (kind === "text") return text;
    if (kind === "lines") return text.split("\n").map((each) => each.trim()).filter(Boolean);
    if (kind === "json") {
      try {
        return JSON.parse(text);
      } catch (error) {
        throw new Problem(this, `is not JSON: ${error.message}`);
      }
    }
    return this.#number(text);
  }

  #number(text) {
    const { kind, low, high } = this.field;
    const plain = text.replace(",", ".");
    const number = Number(plain);
    const isRight = /^[-+]?\d*\.?\d+(e[-+]?\d+)?$/i.test(plain) && Number.isFinite(number);
    if (!isRight) throw new Problem(this, "must be a number");
    if (kind === "integer" && !Number.isInteger(number)) {
      throw new Problem(this, "must be a whole number");
    }
    if (low !== null && number < low) throw new Problem(this, `must be at least ${low}`);
    if (high !== null && number > high) throw new Problem(this, `must be at most ${high}`);
    return number;
  }

  set(value) {
    this.clearEntries();
    this.setWhole(value);
    if (value === undefined || this.whole !== undefined) return;
    this.stored = { value };
    const { kind } = this.field;
    if (kind === "json") this.input.value = JSON.stringify(value);
    else this.input.value = kind === "lines" ? value.join("\n") : String(value);
  }

  focus() {
    this.input.focus();
  }
}

function hintOf({ kind, low, high }) {
  if (kind === "lines") return "One entry a line.";
  if (kind === "json") return "As JSON.";
  if (low !== null && high !== null) return `From ${low} to ${high}.`;
  if (low !== null) return `${low} or more.`;
  return high === null ? "" : `${high} or less.`;
}
