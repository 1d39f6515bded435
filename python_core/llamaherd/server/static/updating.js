// Changes of a part of the page that keep its nodes. A screen reader that reads a part
// loses its place when nodes are replaced, even by equal nodes.

export function setText(node, text) {
  setChildren(node, [new Text(text)]);
}

export function setChildren(parent, children) {
  const old = [...parent.childNodes];
  children.forEach((child, i) => (i < old.length ? change(old[i], child) : parent.append(child)));
  for (const each of old.slice(children.length)) each.remove();
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
