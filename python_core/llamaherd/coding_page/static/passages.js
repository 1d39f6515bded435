// Input for passages of the text.

import { Input } from "/field_input.js";
import { element } from "/requests.js";

// Input for one passage of the text, or for any number of passages.
export class Passages extends Input {
  constructor(field, i, form) {
    super(field, i, form);
    this.isOne = field.kind === "passage";
    this.places = [];
    this.empty = undefined; // answer without passages: null or []
    this.list = element("ul", { class: "plain passages" });
    const take = element(
      "button", { type: "button", class: "take" },
      element("kbd", { text: "1", "aria-hidden": "true" }), " Use the selected words",
    );
    take.setAttribute("aria-keyshortcuts", "1");
    // Keep the selection when the button is pressed.
    take.addEventListener("mousedown", (event) => event.preventDefault());
    take.addEventListener("click", () => this.key(1));
    this.take = take;
    this.box.append(this.list, take);
    if (field.is_nullable || !this.isOne) {
      const none = element("button", { type: "button" });
      none.append(element("kbd", { text: "2", "aria-hidden": "true" }), " None in this text");
      none.setAttribute("aria-keyshortcuts", "2");
      none.addEventListener("click", () => this.key(2));
      this.none = none;
      this.box.append(none);
    }
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
    const quote = this.form.page.quote(place);
    const remove = element("button", { type: "button", text: "Remove" });
    remove.setAttribute("aria-label", `Remove ${this.field.title}: ${quote}`);
    remove.addEventListener("click", () => {
      this.places = this.places.filter((each) => each !== place);
      this.draw();
      this.form.page.change();
      this.take.focus();
    });
    return element("li", {}, element("span", { class: "quote", text: quote }), remove);
  }

  spans() {
    return this.places.map((place) => ({ ...place, label: this.field.name }));
  }

  focus() {
    this.take.focus();
  }

  key(digit) {
    if (digit === 2 && this.none) {
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
