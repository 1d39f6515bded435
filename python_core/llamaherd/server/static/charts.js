// Charts of a few lines over time, drawn as SVG.

import { element, setText } from "/elements.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 140;

function shape(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

export class Chart {
  constructor(box, names, nPoints) {
    this.names = names;
    this.nPoints = nPoints;
    this.points = names.map(() => []);
    this.svg = shape("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
    });
    this.items = names.map(() => element("li"));
    box.replaceChildren(this.svg, element("ul", { class: "legend" }, ...this.items));
  }

  // Adds one value per line; null for a missing value.
  add(values) {
    values.forEach((value, i) => {
      this.points[i].push(value);
      if (this.points[i].length > this.nPoints) this.points[i].shift();
    });
    const most = Math.max(1, ...this.points.flat().filter((value) => value !== null));
    this.svg.replaceChildren(...this.points.map((line, i) => this.#line(line, i, most)));
    const parts = this.names.map((name, i) => {
      const last = values[i] === null ? "–" : format(values[i]);
      const text = `${name}: ${last}`;
      setText(this.items[i], i === 0 ? `${text} (top of the chart: ${format(most)})` : text);
      return text;
    });
    const name = parts.join(", ");
    if (this.svg.getAttribute("aria-label") !== name) this.svg.setAttribute("aria-label", name);
  }

  #line(line, i, most) {
    const first = this.nPoints - line.length;
    const places = line
      .map((value, at) => [value, first + at])
      .filter(([value]) => value !== null)
      .map(([value, at]) => {
        const x = (at / (this.nPoints - 1)) * WIDTH;
        const y = HEIGHT - 5 - (value / most) * (HEIGHT - 15);
        return `${x.toFixed(1)},${y.toFixed(1)}`;
      });
    return shape("polyline", { points: places.join(" "), class: `line${i}` });
  }
}

export function format(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Math.round(value * 10) / 10);
}
