// Input for an object: one input for each of its fields.

import { element } from "/requests.js";
import { Input, inputOf, Problem } from "/inputs.js";

export class Nested extends Input {
  constructor(field, i, form) {
    super(field, i, form);
    this.at = i;
    this.current = 0;
    this.wrong = null;
    const inner = {
      page: form.page,
      turnTo: (name) => this.#turnTo(Number(name.split("-")[1])),
      next: () => this.#next(),
    };
    this.inputs = field.fields.map((each, at) => inputOf(each, `${i}-${at}`, inner));
    this.isTyped = this.inputs[0].isTyped;
    this.isNone = null;
    if (field.is_nullable) {
      this.isNone = element("input", { type: "checkbox" });
      this.box.append(element("label", { class: "level" }, this.isNone, "does not apply"));
      this.isNone.addEventListener("change", () => {
        if (this.isNone.checked) for (const each of this.inputs) each.set(undefined);
      });
    }
    for (const each of this.inputs) {
      each.box.addEventListener("input", () => { if (this.isNone) this.isNone.checked = false; });
      this.box.append(each.box);
    }
  }

  #turnTo(at) {
    this.form.turnTo(this.at);
    this.#mark(at);
  }

  #mark(at) {
    this.current = at;
    this.inputs.forEach((each, j) => each.box.classList.toggle("current", j === at));
  }

  #next() {
    if (this.current + 1 === this.inputs.length) {
      this.#mark(0);
      return this.form.next();
    }
    this.#mark(this.current + 1);
    const input = this.inputs[this.current];
    if (input.isTyped) input.focus();
    return undefined;
  }

  // Returns undefined while nothing is entered.
  get() {
    this.wrong = null;
    if (this.isNone?.checked) return null;
    const answers = this.inputs.map((each) => this.#answer(each));
    if (answers.every((each) => each === undefined)) return undefined;
    const found = {};
    this.inputs.forEach((each, at) => {
      if (answers[at] !== undefined) found[each.field.name] = answers[at];
      else if (each.field.is_required) this.#complain(each, "is not answered yet");
    });
    return found;
  }

  #answer(input) {
    try {
      return input.get();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return this.#complain(input, error.reason);
    }
  }

  #complain(input, reason) {
    this.wrong = input;
    this.#mark(this.inputs.indexOf(input));
    throw new Problem(this, `${input.field.title} ${reason}`, ": ");
  }

  set(value) {
    if (this.isNone) this.isNone.checked = value === null;
    for (const each of this.inputs) each.set(value?.[each.field.name]);
    this.#mark(0);
  }

  focus() {
    (this.wrong ?? this.inputs[0]).focus();
  }

  key(digit) {
    if (this.isNone) this.isNone.checked = false;
    return this.inputs[this.current].key(digit);
  }
}
