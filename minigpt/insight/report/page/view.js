// What the reader has chosen: it survives a reload of the page.

class View {
  constructor() {
    this.key = `minigpt-report ${location.pathname}`;
    this.values = this.load();
  }

  load() {
    let found = null;
    try {
      found = JSON.parse(sessionStorage.getItem(this.key));
    } catch {
      // Some browsers have no storage for a page that was opened from a file.
    }
    found ??= history.state?.minigptReport;
    return found && typeof found === "object" ? found : {};
  }

  save() {
    try {
      sessionStorage.setItem(this.key, JSON.stringify(this.values));
    } catch {
      history.replaceState({ minigptReport: this.values }, "");
    }
  }

  get(name) {
    return this.values[name];
  }

  set(name, value) {
    this.values[name] = value;
    this.save();
  }
}

const view = typeof document === "undefined" ? null : new View();

// <details> that stays open after a reload. A search in the page finds its contents, and opens it.
function foldable(id, title, ...contents) {
  const details = make("details", { id, open: Boolean(view.get(id)) }, make("summary", { id: `${id}-title` }, title), ...contents);
  details.addEventListener("toggle", () => {
    if (Boolean(view.get(id)) !== details.open) view.set(id, details.open);
  });
  return details;
}

// Folds what is below the heading of a section; null for no section.
function folded(part) {
  if (!part) return null;
  const [heading, ...contents] = part.childNodes;
  part.append(foldable(`${part.id}-fold`, heading, ...contents));
  part.classList.add("fold");
  return part;
}

// Opens the section that the address or a link of the list names.
function unfold(fragment) {
  const details = byId(`${fragment.slice(1)}-fold`);
  if (details) details.open = true;
}

// Radio buttons. options: [[value, name]]; onChange(value) is called for the initial choice, too.
function choice(id, title, options, onChange, initial = options[0][0]) {
  const kept = options.find(([value]) => value === view.get(id))?.[0] ?? initial;
  const set = make("fieldset", { class: "choice" }, make("legend", {}, title));
  for (const [value, name] of options) {
    const input = make("input", { type: "radio", name: id, id: `${id}-${value}`, value, checked: value === kept, autocomplete: "off" });
    input.addEventListener("change", () => {
      view.set(id, value);
      onChange(value);
    });
    set.append(make("label", {}, input, make("span", {}, name)));
  }
  onChange(kept);
  return set;
}

// A list to choose from. Without a choice of the reader it has the initial one.
function chooser(id, title, options, initial, onChange) {
  const select = make("select", { id, autocomplete: "off" });
  for (const [value, name] of options) select.append(make("option", { value }, name));
  const values = options.map(([value]) => String(value));
  select.value = values.includes(view.get(id)) ? view.get(id) : String(initial);
  select.addEventListener("change", () => {
    view.set(id, select.value);
    onChange();
  });
  return { node: make("div", { class: "chooser" }, make("label", { for: id }, title), select), select };
}
