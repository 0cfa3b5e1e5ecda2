// Numbers and token labels as a reader sees them.

const INVISIBLE =
  /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\ufff9-\ufffb]/gu;
const ONLY_INVISIBLE = new RegExp(`^(?:${INVISIBLE.source}|[\\p{Cc}\\p{Cf}])+$`, "u");
// Joiners and variation selectors are parts of a visible character unless they stand alone.
const JOINING = /[\u200c\u200d\ufe00-\ufe0f]/u;

const VISIBLE_NAMES = new Map([
  ["\n", "↵"],
  ["\t", "⇥"],
]);

function visibleCharacter(character) {
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return VISIBLE_NAMES.get(character) ?? `‹U+${code}›`;
}

// A label in which every character can be seen: spaces at its ends are dots, control characters have names.
function readable(label) {
  const alone = ONLY_INVISIBLE.test(label);
  const text = label
    .replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length))
    .replace(INVISIBLE, (character) => (!alone && JOINING.test(character) ? character : visibleCharacter(character)));
  return /^\p{M}/u.test(text) ? `◌${text}` : text;
}

// Characters that change the direction of the text around them, or that cannot be seen and mean nothing in a text.
const CONTROLS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]|\p{Cs}/gu;

// A text as it is, in which control characters have names.
function shownText(text) {
  return text.replace(CONTROLS, visibleCharacter);
}

// A label as a screen reader should say it.
function spoken(label) {
  if (/^ +$/.test(label)) return "space";
  if (/^\s*\n\s*$/.test(label)) return "line break";
  return readable(label.replace(/^ +| +$/g, "").replace(/^\n+|\n+$/g, "")) || readable(label);
}

// What is shown in place of a token that cannot be seen in the text; null for all others.
function tokenMarker(token) {
  if (token.text === "") return readable(token.label) || "∅";
  if (token.text.includes("\n")) return "↵";
  return ONLY_INVISIBLE.test(token.text) && token.text !== "\t" ? readable(token.text) : null;
}

function formatInteger(number) {
  return new Intl.NumberFormat("en").format(number);
}

// 2,187,264 → "2.19 million"
function formatMillions(number) {
  if (number < 1e6) return formatInteger(number);
  const [unit, name] = number < 1e9 ? [1e6, "million"] : [1e9, "billion"];
  const value = number / unit;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${name}`;
}

function formatBytes(number) {
  if (number < 1e3) return `${number} bytes`;
  const [unit, name] = number < 1e6 ? [1e3, "kB"] : number < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  const value = number / unit;
  return `${value.toFixed(value < 10 ? 1 : 0)} ${name}`;
}

function formatPercent(probability) {
  const percent = probability * 100;
  if (!(percent >= 0)) return "unknown";
  if (percent >= 99.5) return percent > 99.99 ? "100%" : ">99%";
  if (percent >= 10) return `${percent.toFixed(0)}%`;
  if (percent >= 1) return `${percent.toFixed(1)}%`;
  if (percent >= 0.01) return `${percent.toFixed(2)}%`;
  return percent === 0 ? "0%" : "<0.01%";
}

function formatSeconds(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 && !Number.isInteger(seconds) ? 2 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function formatCount(number, singular, plural = `${singular}s`) {
  return `${formatInteger(number)} ${number === 1 ? singular : plural}`;
}

// The class of a probability: 0 (50% or more) to 4 (under 1%).
function probabilityLevel(probability) {
  const level = [0.5, 0.2, 0.05, 0.01].findIndex((limit) => probability >= limit);
  return level < 0 ? 4 : level;
}

// The last characters of a text, without half a surrogate pair or half a word at the start.
function endOfText(text, length) {
  if (text.length <= length) return text;
  const end = text.slice(-length).replace(/^[\udc00-\udfff]/, "");
  const space = end.slice(0, 40).search(/\s/);
  return space < 0 ? end : end.slice(space + 1);
}

// The first characters of a text on one line.
function startOfText(text, length) {
  const line = text
    .slice(0, length * 4)
    .replace(/\s+/g, " ")
    .trim();
  const characters = Array.from(line);
  return characters.length > length || text.length > length * 4 ? `${characters.slice(0, length).join("")}…` : line;
}
