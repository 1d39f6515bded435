// Field that finds labels by words of their names and definitions.

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

export class Finder {
  // `page` has choose(label), say(text), announce(n labels), keepSelection() and focusText().
  constructor(input, list, page) {
    Object.assign(this, { input, list, page });
    input.addEventListener("input", () => this.#find());
    input.addEventListener("keydown", (event) => this.#onKey(event));
    input.parentElement.addEventListener("pointerdown", page.keepSelection);
  }

  start() {
    this.page.keepSelection();
    this.input.focus();
    this.input.select();
  }

  end() {
    if (!this.input.value) return;
    this.input.value = "";
    this.#find();
  }

  // Shows only the labels whose name or definition has all words that are typed.
  #find() {
    const words = folded(this.input.value).split(/\s+/u).filter(Boolean);
    for (const item of this.list.children) {
      const text = folded(item.textContent);
      item.hidden = !words.every((word) => text.includes(word));
    }
    if (words.length) this.page.announce(this.#matches().length);
  }

  // Labels that are found; those whose name begins with the text come first.
  #matches() {
    const start = folded(this.input.value.trim());
    const labels = [...this.list.children].filter((item) => !item.hidden)
      .map((item) => item.querySelector("button").dataset.label);
    const begins = (label) => folded(label).startsWith(start);
    return [...labels.filter(begins), ...labels.filter((label) => !begins(label))];
  }

  #onKey(event) {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const [first] = this.input.value.trim() ? this.#matches() : [];
    if (event.key === "Enter" && first === undefined) return this.page.say("No label has these words.");
    this.end();
    this.page.focusText();
    if (event.key === "Enter") this.page.choose(first);
  }
}
