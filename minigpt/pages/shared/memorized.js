// Samples and what of them is in the training text word for word.

// The text with its copied passages underlined. copied: [[start, end], ...], code points, in order.
function copiedText({ prompt, text, copied }) {
  const characters = Array.from(text);
  const nodes = prompt ? [make("span", { class: "prompt" }, shownText(prompt))] : [];
  let at = 0;
  for (const [start, end] of copied) {
    nodes.push(shownText(characters.slice(at, start).join("")));
    nodes.push(make("mark", { class: "copied" }, hiddenText("[copied: "), shownText(characters.slice(start, end).join("")), hiddenText("]")));
    at = end;
  }
  nodes.push(shownText(characters.slice(at).join("")));
  return nodes;
}

function memorizedShare({ share, held_out_share }) {
  if (share === null) return null;
  const held = held_out_share === null ? "" : `; in held-out text of equal length, ${formatPercent(held_out_share)}`;
  return `${formatPercent(share)} of the tokens${held}`;
}

const MEMORIZED_NOTE =
  "Samples of the model are compared with its training text. A passage counts as copied if at least 8 words and 50 characters in a row are in the training text. Held-out text, which the model has never seen, shows how much of that is common language.";

// One entry a sample.
function copiedSamples(samples) {
  const list = make("ol", { class: "copied-samples" });
  for (const sample of samples) list.append(make("li", { dir: "auto" }, ...copiedText(sample)));
  return list;
}
