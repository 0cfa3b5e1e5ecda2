// How the exports of a run compare with it.

const CERTIFICATE_NOTE =
  "What `minigpt export` and `minigpt verify` measured. int8 weights may change logits and texts; bits per byte may differ by up to 0.5%. They are measured on part of the text, so they are not those of the key figures. Tokens per second: greedy, one text at a time, on the machine of the comparison.";

const CERTIFICATE_COLUMNS = [
  ["Export", ({ name }) => make("bdi", {}, name === null ? "–" : readable(name))],
  ["Format", ({ format }) => shownText(format)],
  ["Weights", ({ weights }) => (weights === null ? "–" : shownText(weights))],
  ["Size", ({ bytes }) => (bytes === null ? "–" : formatBytes(bytes))],
  ["Largest difference of logits", formatDifference],
  ["Same greedy texts", formatTexts],
  ["Bits per byte of the run", ({ source_bits }) => formatBits(source_bits)],
  ["Bits per byte of the export", ({ export_bits }) => formatBits(export_bits)],
  ["Bits per byte measured on", formatCompared],
  ["Lines with the same tokens", ({ same_lines, lines }) => formatPart(same_lines, lines)],
  ["Tokens per second", ({ tokens_per_second }) => (tokens_per_second === null ? "–" : formatInteger(Math.round(tokens_per_second)))],
  ["Within tolerance", formatTolerance],
  ["Made of", formatOrigin],
];

function formatDifference({ has_logits, largest_difference }) {
  if (!has_logits) return "–";
  return largest_difference === null ? "nan or infinite" : String(Number(largest_difference.toPrecision(2)));
}

function formatPart(same, all) {
  return same === null || all === null ? "–" : `${formatInteger(same)} of ${formatInteger(all)}`;
}

function formatTexts({ same_texts, prompts }) {
  return formatPart(same_texts, prompts);
}

function formatBits(value) {
  return value === null ? "–" : value.toFixed(4);
}

function formatCompared({ compared_tokens, compared_text }) {
  const text = compared_text === null ? "not recorded" : shownText(compared_text);
  return compared_tokens === null ? "–" : `the first ${formatCount(compared_tokens, "token")}: ${text}`;
}

function formatTolerance({ problems }) {
  if (problems === null) return "not known";
  return problems.length ? make("span", { class: "outside", dir: "auto" }, make("strong", {}, "no"), `: ${shownText(problems.join("; "))}`) : "yes";
}

function formatOrigin({ is_current, checkpoint }) {
  if (is_current === null) return "not recorded";
  if (is_current) return "the best model";
  return make("strong", {}, checkpoint === null ? "older weights" : `older weights: ${shownText(checkpoint)}`);
}

function certificateRow(certificate) {
  return CERTIFICATE_COLUMNS.map(([, value]) => value(certificate));
}

function certificatesPart(columns, rows) {
  const titles = CERTIFICATE_COLUMNS.map(([title]) => title);
  return section("certificates", "Exports", make("p", { class: "note" }, ...withCode(CERTIFICATE_NOTE)), dataTable("Certificates of the exports", [...columns, ...titles], rows, "certificates"));
}

function certificatesSection({ certificates }) {
  return certificates.length ? certificatesPart([], certificates.map(certificateRow)) : null;
}

function comparedCertificates(runs) {
  const names = runNames(runs);
  const rows = runs.flatMap(({ certificates }, at) => certificates.map((certificate) => [namedLine(names[at], at), ...certificateRow(certificate)]));
  return rows.length ? certificatesPart(["Run"], rows) : null;
}
