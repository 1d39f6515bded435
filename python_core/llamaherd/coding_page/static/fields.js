// Form of a codebook with fields. Keys 1 to 9 act on the current field: they choose its
// levels, or store the selected words as its passage.

import { Problem } from "/field_input.js";
import { inputOf } from "/inputs.js";
import { Nested } from "/nested.js";

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
