// Base of the inputs: a box with the title of its field, and check boxes for answers to
// the whole field.

import { element } from "/requests.js";

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
      for (const each of this.wholes) if (each.box !== box) each.box.checked = false;
      this.clearEntries();
      this.form.page.change();
    });
    this.wholes.push({ box, value });
    this.box.append(element("label", { class: "level" }, box, text));
  }

  // Answer to the whole field that is checked; undefined if none is checked.
  get whole() {
    return this.wholes.find((each) => each.box.checked)?.value;
  }

  // Checks the box of a value; without a value, unchecks all boxes.
  setWhole(value) {
    for (const each of this.wholes) {
      each.box.checked = JSON.stringify(each.value) === JSON.stringify(value);
    }
  }

  spans() {
    return [];
  }

  key() {
    return false;
  }
}
