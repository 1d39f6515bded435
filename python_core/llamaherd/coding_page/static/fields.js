// Form of a codebook with fields, also with objects of fields. Keys 1 to 9 act on the current
// field: they choose its levels, or store the selected words as its passage.

import { Input, NOT_APPLIED, Problem, inputOf } from "/inputs.js";

export class FieldForm {
  // `page` has quote(place), place() of the selection, change() and say(text).
  constructor(box, fields, page) {
    this.page = page;
    this.inputs = fields.map((field, i) => (
      field.kind === "object" ? new Nested(field, i, this) : inputOf(field, i, this)
    ));
    this.current = 0;
    box.replaceChildren(...this.inputs.map((each) => each.box));
  }

  // Shows stored answers; checks none of them, so that every stored text can be shown.
  show(value) {
    for (const each of this.inputs) each.set(value === null ? undefined : value[each.field.name]);
    const open = this.inputs.findIndex((each) => !each.isAnswered);
    this.turnTo(Math.max(open, 0));
  }

  turnTo(i) {
    this.current = i;
    this.inputs.forEach((each, at) => {
      each.box.classList.toggle("current", at === i);
      if (at === i) each.box.setAttribute("aria-current", "true");
      else each.box.removeAttribute("aria-current");
    });
  }

  // Makes the next field current, and focuses it if it is a text box.
  next() {
    if (this.current + 1 === this.inputs.length) return this.page.focusText();
    this.turnTo(this.current + 1);
    const input = this.inputs[this.current];
    input.box.scrollIntoView({ block: "nearest" });
    if (input.isTyped) input.focus();
    else this.page.focusText();
  }

  key(digit) {
    return this.inputs[this.current].key(Number(digit));
  }

  clear() {
    this.inputs[this.current].set(undefined);
    this.page.change();
  }

  spans() {
    return this.inputs.flatMap((each) => each.spans());
  }

  // Returns the answers by field; throws a Problem that names an invalid field.
  value() {
    const found = {};
    for (const each of this.inputs) {
      const answer = each.get();
      if (answer === undefined) {
        if (each.field.is_required) throw new Problem(each, "is not answered yet");
      } else found[each.field.name] = answer;
    }
    return found;
  }

  complain(problem) {
    const i = this.inputs.indexOf(problem.input);
    this.turnTo(i);
    problem.input.focus();
    this.page.say(problem.message);
  }
}

class Nested extends Input {
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
    this.others = {}; // stored values of names that the form does not have
    if (field.is_nullable) this.addWhole(NOT_APPLIED, null);
    if (!field.fields.some((each) => each.is_required)) this.addWhole("none of these fields", {});
    for (const each of this.inputs) {
      each.box.addEventListener("input", () => this.setWhole());
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

  clearEntries() {
    for (const each of this.inputs) each.set(undefined);
    this.others = {};
  }

  get isAnswered() {
    const isOther = Object.keys(this.others).length > 0;
    return this.whole !== undefined || isOther || this.inputs.some((each) => each.isAnswered);
  }

  // Returns undefined while nothing is entered; throws a Problem for an invalid entry.
  get() {
    this.wrong = null;
    if (this.whole !== undefined) return this.whole;
    if (!this.isAnswered) return undefined;
    const answers = this.inputs.map((each) => this.#answer(each));
    const found = { ...this.others };
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
    this.others = { ...value };
    for (const each of this.inputs) {
      each.set(value?.[each.field.name]);
      delete this.others[each.field.name];
    }
    this.setWhole(value);
    this.#mark(0);
  }

  focus() {
    (this.wrong ?? this.inputs[0]).focus();
  }

  key(digit) {
    const isTaken = this.inputs[this.current].key(digit);
    if (isTaken) this.setWhole();
    return isTaken;
  }
}
