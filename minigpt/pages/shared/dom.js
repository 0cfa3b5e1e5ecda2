// Builds parts of the document. Every text becomes a text node; nothing is ever parsed as markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function byId(id) {
  return document.getElementById(id);
}

// make("p", {class: "note"}, "A text", child): attributes that are false, null or undefined are left out.
function make(name, attributes, ...children) {
  return fillElement(document.createElement(name), attributes, children);
}

function makeSvg(name, attributes, ...children) {
  return fillElement(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

function fillElement(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    setAttribute(node, name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function setAttribute(node, name, value) {
  if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

function makeButton(attributes, onClick, ...children) {
  const button = make("button", { type: "button", ...attributes }, ...children);
  button.addEventListener("click", onClick);
  return button;
}

function hiddenText(text) {
  return make("span", { class: "visually-hidden" }, text);
}

// The label of a token, isolated from the direction of the text around it, and what a screen reader says in its place.
function tokenLabel(label) {
  const shown = readable(label);
  const said = spoken(label);
  const node = make("bdi", { class: "label", "aria-hidden": said !== shown && "true" }, shown);
  if (said === shown) return node;
  const both = document.createDocumentFragment();
  both.append(node, hiddenText(said));
  return both;
}

// Calls redraw(width) now and whenever the width of the element changes.
function watchWidth(node, redraw) {
  let last = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(node.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      redraw(width);
    }
  });
  observer.observe(node);
}

function watchColors(redraw) {
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    window.matchMedia(query).addEventListener("change", redraw);
  }
}

// Resolves to whether the text could be put on the clipboard.
async function copyToClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyWithSelection(text);
  }
}

// For browsers that have no clipboard interface for a page opened from a file.
function copyWithSelection(text) {
  const focused = document.activeElement;
  const field = make("textarea", { class: "visually-hidden", "aria-hidden": "true", tabindex: "-1" });
  field.value = text;
  document.body.append(field);
  field.select();
  let copied = false;
  try {
    copied = document.execCommand("copy");
  } catch {
    copied = false;
  }
  field.remove();
  focused?.focus({ preventScroll: true });
  return copied;
}
