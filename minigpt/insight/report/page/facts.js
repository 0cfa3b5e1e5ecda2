// Memorization, the training text, settings and environment.

function section(id, title, ...contents) {
  const heading = make("h2", { id: `${id}-heading` }, title);
  return make("section", { id, "aria-labelledby": `${id}-heading` }, heading, ...contents);
}

function factList(entries) {
  const list = make("dl", { class: "facts" });
  for (const [name, value] of entries) {
    if (value !== null && value !== undefined && value !== "") list.append(make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value)));
  }
  return list;
}

const STATE_NAMES = { best: "Best model", last: "Last state" };

function memorizationSection(run) {
  const { best } = run.memorization;
  // Once, if the last state is the best one.
  const states = Object.entries(run.memorization).filter(([, measured]) => measured === best || measured.step === null || measured.step !== best?.step);
  if (!states.length) return null;
  return section(
    "memorization",
    "Memorization",
    make("p", { class: "note" }, MEMORIZED_NOTE),
    make("div", { class: "columns" }, ...states.map(([state, measured]) => memorizationPart(state, measured))),
  );
}

function memorizationPart(state, measured) {
  const after = [measured.epoch !== null && `epoch ${formatInteger(measured.epoch)}`, measured.step !== null && `step ${formatInteger(measured.step)}`].filter(Boolean).join(", ");
  const entries = [
    ["State", after],
    ["Copied", memorizedShare(measured)],
    ["Compared", measured.tokens !== null && `${formatCount(measured.tokens, "token")} of samples`],
  ];
  const part = make("div", { class: "part" }, make("h3", {}, STATE_NAMES[state]), factList(entries.filter(([, value]) => value)));
  if (measured.samples.length) {
    part.append(
      foldable(`memorized-${state}`, `${formatCount(measured.samples.length, "sample")}, copied passages underlined`, copiedSamples(measured.samples)),
    );
  }
  return part;
}

const FINDING_TITLES = {
  duplicates: "Duplicates",
  repeated_line: "A repeated line",
  repeated_text: "Repeated text",
  encoding: "Wrong encoding",
  control_characters: "Control characters",
  html: "HTML",
};

function textSection(run) {
  const findings = run.text;
  const about = [
    ["Text", run.description && shownText(run.description)],
    ["Held out", run.val_tokens !== null && formatCount(run.val_tokens, "token")],
  ].filter(([, value]) => value);
  if (findings === null && !about.length) return null;
  const list = make("ul", { class: "sentences" });
  for (const { kind, evidence } of findings ?? []) {
    const title = Object.hasOwn(FINDING_TITLES, kind) ? FINDING_TITLES[kind] : shownText(kind).replaceAll("_", " ");
    list.append(make("li", { dir: "auto" }, make("strong", {}, title), evidence ? `: ${shownText(evidence)}` : ""));
  }
  const none = findings !== null && !findings.length && make("p", { class: "note" }, "Nothing suspicious was found in the training text.");
  return section("text", "Training text", factList(about), findings?.length > 0 && list, none);
}

function settingsTable(rows, name) {
  return dataTable(name, ["Setting", "Value"], rows.map((row) => [make("code", {}, shownText(row.name)), make("code", { dir: "auto" }, readable(row.value))]), "settings");
}

function settingsSection(run) {
  const changed = run.settings.filter(({ differs }) => differs !== false);
  const others = run.settings.filter(({ differs }) => differs === false);
  const parts = [];
  if (!run.settings.length) parts.push(make("p", { class: "note" }, "config.toml cannot be read."));
  else parts.push(make("div", { class: "part" }, make("h3", {}, "Settings that differ from the defaults"), changed.length ? settingsTable(changed, "Settings that differ from the defaults") : make("p", { class: "note" }, "None.")));
  if (others.length) parts.push(foldable("other-settings", `${formatCount(others.length, "other setting")} with default values`, settingsTable(others, "Other settings")));
  const environment = [["Device of the training", run.device ?? "not recorded"], ["Trained with", run.version && `minigpt ${shownText(run.version)}`]];
  const facts = factList(environment.map(([name, value]) => [name, value && shownText(value)]));
  return section("settings", "Settings", make("div", { class: "columns" }, make("div", {}, ...parts), make("div", {}, make("div", { class: "part" }, make("h3", {}, "Environment"), facts))));
}
