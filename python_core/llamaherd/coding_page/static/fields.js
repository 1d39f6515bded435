// Form of a codebook with fields, also with objects of fields. Keys 1 to 9 act on the current
// field: they choose its levels, or store the selected words as its passage.

import { Input, NOT_APPLIED, Problem, inputOf } from "/inputs.js";

// Inputs, one of which is current.
class Group {
  current = 0;

  mark(i) {
    this.current = i;
    this.inputs.forEach((input, at) => input.box.classList.toggle("current", at === i));
  }

  key(digit) {
    return this.inputs[this.current].key(digit);
  }

  // Returns the answers by field; throws a Problem that names an invalid field.
  value() {
    const answers = this.inputs.map((input) => [input, input.get()]);
    const isMissing = ([input, answer]) => input.field.is_required && answer === undefined;
    const [missing] = answers.find(isMissing) ?? [];
    if (missing) throw new Problem(missing, "is not answered yet");
    const complete = answers.filter(([, answer]) => answer !== undefined);
    return Object.fromEntries(complete.map(([input, answer]) => [input.field.name, answer]));
  }
}

export class FieldForm extends Group {
  // `page` has quote(place), place() of the selection, change(), say(text) and focusText().
  constructor(box, fields, page) {
    super();
    this.page = page;
    this.inputs = fields.map((field, i) => (
      field.kind === "object" ? new Nested(field, i, this) : inputOf(field, i, this)
    ));
    box.replaceChildren(...this.inputs.map((input) => input.box));
  }

  // Shows stored answers; checks none of them, so that every stored text can be shown.
  show(value) {
    for (const input of this.inputs) input.set(value === null ? undefined : value[input.field.name]);
    const open = this.inputs.findIndex((input) => !input.isAnswered);
    this.turnTo(Math.max(open, 0));
  }

  turnTo(i) {
    this.mark(i);
    this.inputs.forEach((input, at) => { input.box.ariaCurrent = at === i ? "true" : null; });
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

  clear() {
    this.inputs[this.current].set(undefined);
    this.page.change();
  }

  spans() {
    return this.inputs.flatMap((input) => input.spans());
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
    this.wrong = null;
    this.group = new Group();
    const turnTo = (name) => {
      form.turnTo(i);
      this.group.mark(Number(name.split("-")[1]));
    };
    const inner = { page: form.page, turnTo, next: () => this.#next() };
    this.inputs = field.fields.map((part, at) => inputOf(part, `${i}-${at}`, inner));
    this.group.inputs = this.inputs;
    this.isTyped = this.inputs[0].isTyped;
    this.others = {}; // stored values of names that the form does not have
    if (field.is_nullable) this.addWhole(NOT_APPLIED, null);
    if (!field.fields.some((part) => part.is_required)) this.addWhole("none of these fields", {});
    for (const input of this.inputs) {
      input.box.addEventListener("input", () => this.setWhole());
      this.box.append(input.box);
    }
  }

  #next() {
    const at = (this.group.current + 1) % this.inputs.length;
    this.group.mark(at);
    if (at === 0) this.form.next();
    else if (this.inputs[at].isTyped) this.inputs[at].focus();
  }

  clearEntries() {
    for (const input of this.inputs) input.set(undefined);
    this.others = {};
  }

  get isAnswered() {
    const isOther = Object.keys(this.others).length > 0;
    return this.whole !== undefined || isOther || this.inputs.some((input) => input.isAnswered);
  }

  // Returns undefined while nothing is entered; throws a Problem for an invalid entry.
  get() {
    this.wrong = null;
    if (this.whole !== undefined) return this.whole;
    if (!this.isAnswered) return undefined;
    try {
      return { ...this.others, ...this.group.value() };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.wrong = error.input;
      this.group.mark(this.inputs.indexOf(this.wrong));
      throw new Problem(this, `${this.wrong.field.title} ${error.reason}`, ": ");
    }
  }

  set(value) {
    this.others = { ...value };
    for (const input of this.inputs) {
      input.set(value?.[input.field.name]);
      delete this.others[input.field.name];
    }
    this.setWhole(value);
    this.group.mark(0);
  }

  focus() {
    (this.wrong ?? this.inputs[0]).focus();
  }

  key(digit) {
    const isTaken = this.group.key(digit);
    if (isTaken) this.setWhole();
    return isTaken;
  }
}
