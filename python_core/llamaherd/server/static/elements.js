// Elements of all pages, and changes of a part of a page that keep its nodes. A screen reader
// that reads a part loses its place when nodes are replaced, even by equal nodes.

export const $ = (id) => document.getElementById(id);

// Creates an element with a text, which is never parsed as HTML.
export function element(name, options = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// Creates a row of a table from texts, or lists of texts and nodes; the first cell names the row.
export function row(...cells) {
  return element("tr", {}, ...cells.map((cell, i) => (
    element(i ? "td" : "th", i ? {} : { scope: "row" }, ...[cell].flat())
  )));
}

// Creates a section with a table from its id, its title and the titles of its columns.
export function tableSection([id, [title, ...columns]]) {
  const label = { "aria-labelledby": `${id}-title` };
  const heads = columns.map((text) => element("th", { scope: "col", text }));
  return element(
    "section", { id: `${id}-section`, class: "wide", tabindex: "0", ...label },
    element("h2", { id: `${id}-title`, text: title }),
    element("table", label, element("thead", {}, element("tr", {}, ...heads)), element("tbody", { id })),
  );
}

export function setText(node, text) {
  setChildren(node, [new Text(text)]);
}

export function setChildren(parent, children) {
  const old = [...parent.childNodes];
  children.forEach((child, i) => (i < old.length ? change(old[i], child) : parent.append(child)));
  for (const child of old.slice(children.length)) child.remove();
}

function change(node, like) {
  if (node.isEqualNode(like)) return;
  if (node.nodeName !== like.nodeName) return node.replaceWith(like);
  if (node.nodeType === Node.TEXT_NODE) {
    node.data = like.data;
    return;
  }
  for (const name of node.getAttributeNames()) {
    if (!like.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of like.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  setChildren(node, [...like.childNodes]);
}

// Shows a number with `digits` decimals; with more if it would look like 0 or 1 but is not, and
// never as -0.00, as in engine/core/phrases.py.
export function decimals(value, digits) {
  const gap = Math.min(Math.abs(value), 1 - Math.abs(value));
  let more = digits;
  while (gap > 1e-9 && more < 9 && [0, 1].includes(Math.abs(Number(value.toFixed(more))))) more += 1;
  return value.toFixed(more).replace(/^-(0[.]?0*)$/, "$1");
}

// Shows a share in percent: a whole number, or more digits near 0% and 100%.
export function percent(share) {
  const digits = decimals(share, 2).length - "0.00".length;
  return `${(100 * share).toFixed(digits)}%`;
}
