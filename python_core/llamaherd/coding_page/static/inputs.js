// Inputs of the fields of a codebook: levels, numbers, texts and passages. A box has the title
// of its field, and check boxes for answers to the whole field.

import { element } from "/elements.js";

export const NOT_APPLIED = "does not apply"; // null

export class Problem extends Error {
  constructor(input, reason, after = " ") {
    super(`${input.field.title}${after}${reason}.`);
    this.input = input;
    this.reason = reason;
  }
}

export class Input {
  constructor(field, i, form) {
    this.field = field;
    this.form = form;
    this.isTyped = false;
    const mark = field.is_required ? "" : " (optional)";
    this.box = element("fieldset", { class: "form-field" });
    this.box.append(element("legend", { text: field.title + mark }));
    if (field.definition) {
      const id = `about-field-${i}`;
      this.box.append(element("p", { class: "quiet definition", id, text: field.definition }));
      this.box.setAttribute("aria-describedby", id);
    }
    this.box.addEventListener("focusin", () => form.turnTo(i));
    this.name = `field-${i}`;
    this.wholes = [];
  }

  // Adds a check box for an answer to the whole field, which replaces the entries.
  addWhole(text, value) {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", () => {
      if (!box.checked) return;
      for (const whole of this.wholes) if (whole.box !== box) whole.box.checked = false;
      this.clearEntries();
      this.form.page.change();
    });
    this.wholes.push({ box, value });
    this.box.append(element("label", { class: "level" }, box, text));
  }

  // Answer to the whole field that is checked; undefined if none is checked.
  get whole() {
    return this.wholes.find((whole) => whole.box.checked)?.value;
  }

  // Checks the box of a value; without a value, unchecks all boxes.
  setWhole(value) {
    for (const whole of this.wholes) {
      whole.box.checked = JSON.stringify(whole.value) === JSON.stringify(value);
    }
  }

  spans() {
    return [];
  }

  key() {
    return false;
  }
}

// Shows the key that presses `control`, before what follows in `label`.
export function addKey(label, sign, control = label) {
  label.append(element("kbd", { text: sign, "aria-hidden": "true" }));
  control.setAttribute("aria-keyshortcuts", sign);
}

export function described({ name, definition }) {
  const words = element("span", {}, element("span", { class: "name", text: name }));
  if (definition) words.append(element("span", { class: "definition", text: definition }));
  return words;
}

// Item of a list of passages, with a button that removes the passage of `name`.
export function passageItem(name, quote, remove, ...before) {
  const button = element("button", { type: "button", text: "Remove" });
  button.setAttribute("aria-label", `Remove ${name}: ${quote}`);
  button.addEventListener("click", remove);
  return element("li", {}, ...before, element("span", { class: "quote", text: quote }), button);
}

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
    this.levels = [...field.levels];
    if (field.is_nullable && this.isOne) this.levels.push({ value: null, name: NOT_APPLIED });
    // The key of a one-digit level is this digit.
    this.areDigits = this.levels.every((level) => /^[0-9]$/.test(level.name));
    if (!this.isOne) this.levels.push({ name: "none of these", isNone: true });
    const list = element("ul", { class: "plain levels" });
    this.boxes = this.levels.map((level, at) => this.#item(list, level, at));
    this.box.append(list);
    list.addEventListener("change", (event) => this.#changed(event.target));
    if (field.is_nullable && !this.isOne) this.addWhole(NOT_APPLIED, null);
  }

  #item(list, level, at) {
    const type = this.isOne ? "radio" : "checkbox";
    const box = element("input", { type, name: this.name });
    const label = element("label", { class: "level" }, box);
    const sign = this.areDigits ? level.name : String(at + 1);
    if (sign.length === 1 && at <= MAX_KEYS) addKey(label, sign, box);
    label.append(described(level));
    list.append(element("li", {}, label));
    return box;
  }

  #changed(box) {
    const { isNone } = this.levels[this.boxes.indexOf(box)];
    if (box.checked) {
      this.levels.forEach((level, at) => {
        if (level.isNone !== isNone) this.boxes[at].checked = false;
      });
      this.setWhole();
    }
    this.form.page.change();
  }

  clearEntries() {
    for (const box of this.boxes) box.checked = false;
  }

  get isAnswered() {
    return this.get() !== undefined;
  }

  get() {
    if (this.whole !== undefined) return this.whole;
    const chosen = this.levels.filter((_, at) => this.boxes[at].checked);
    if (this.isOne) return chosen[0]?.value;
    return chosen.length ? chosen.filter((level) => !level.isNone).map((level) => level.value) : undefined;
  }

  set(value) {
    const has = (level) => (this.isOne ? level.value === value
      : level.isNone ? value?.length === 0 : value?.includes(level.value));
    this.levels.forEach((level, at) => { this.boxes[at].checked = Boolean(has(level)); });
    this.setWhole(value);
  }

  focus() {
    (this.boxes.find((box) => box.checked) ?? this.boxes[0]).focus();
  }

  key(digit) {
    const isOwn = (level) => level.name === String(digit);
    const at = this.areDigits ? this.levels.findIndex(isOwn) : digit - 1;
    const box = this.boxes[at];
    if (!box) return false;
    box.checked = this.isOne || !box.checked;
    this.#changed(box);
    this.form.page.say(`${this.field.title}: ${this.levels[at].name}${box.checked ? "" : " removed"}`);
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
    if (kind === "lines") return text.split("\n").map((line) => line.trim()).filter(Boolean);
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

class Passages extends Input {
  constructor(field, i, form) {
    super(field, i, form);
    this.isOne = field.kind === "passage";
    this.places = [];
    this.empty = undefined; // answer without passages: null or []
    this.list = element("ul", { class: "plain passages" });
    this.box.append(this.list);
    this.take = this.#button(1, " Use the selected words");
    // Keep the selection when the button is pressed.
    this.take.addEventListener("mousedown", (event) => event.preventDefault());
    this.hasNone = field.is_nullable || !this.isOne;
    if (this.hasNone) this.#button(2, " None in this text");
  }

  #button(digit, text) {
    const button = element("button", { type: "button" });
    addKey(button, String(digit));
    button.append(text);
    button.addEventListener("click", () => this.key(digit));
    this.box.append(button);
    return button;
  }

  get() {
    if (!this.places.length) return this.empty;
    return this.isOne ? this.places[0] : this.places;
  }

  get isAnswered() {
    return this.get() !== undefined;
  }

  set(value) {
    const isNone = value === null || (Array.isArray(value) && value.length === 0);
    this.empty = isNone ? value : undefined;
    this.places = value ? [value].flat().map(({ start, end }) => ({ start, end })) : [];
    this.draw();
  }

  draw() {
    this.list.replaceChildren(...this.places.map((place) => this.#item(place)));
    if (this.empty !== undefined) this.list.append(element("li", { class: "quiet", text: "none" }));
  }

  #item(place) {
    return passageItem(this.field.title, this.form.page.quote(place), () => {
      this.places = this.places.filter((other) => other !== place);
      this.draw();
      this.form.page.change();
      this.take.focus();
    });
  }

  spans() {
    return this.places.map((place) => ({ ...place, label: this.field.name }));
  }

  focus() {
    this.take.focus();
  }

  key(digit) {
    if (digit === 2 && this.hasNone) {
      this.set(this.isOne ? null : []);
      this.form.page.change();
      this.form.page.say(`${this.field.title}: none`);
      this.form.next();
      return true;
    }
    if (digit !== 1) return false;
    const place = this.form.page.place();
    if (!place) {
      this.form.page.say("Select words of the text first.");
      return true;
    }
    const isThere = this.places.some((e) => e.start === place.start && e.end === place.end);
    if (this.isOne) this.places = [place];
    else if (!isThere) this.places.push(place);
    this.empty = undefined;
    this.draw();
    this.form.page.change();
    this.form.page.say(`${this.field.title}: ${this.form.page.quote(place)}`);
    if (this.isOne) this.form.next();
    return true;
  }
}
