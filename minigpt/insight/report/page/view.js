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

// <details> whose content is made when it is opened first, and which stays open after a reload.
function foldable(id, title, fill) {
  const details = make("details", { id }, make("summary", { id: `${id}-title` }, title));
  let filled = false;
  const open = () => {
    if (!filled) details.append(fill());
    filled = true;
  };
  if (view.get(id)) {
    open();
    details.open = true;
  }
  details.addEventListener("toggle", () => {
    if (details.open) open();
    if (Boolean(view.get(id)) !== details.open) view.set(id, details.open);
  });
  return details;
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
