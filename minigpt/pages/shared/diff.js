// The words in which a text differs from an earlier one.

// Words, single characters of scripts that do not separate words, white space, and signs.
const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]|[\p{L}\p{N}\p{M}]+|\s+|./gsu;
const MAX_CELLS = 4_000_000;

function splitWords(text) {
  return text.match(WORDS) ?? [];
}

// [{text, changed}]: the text in parts; changed parts are not in the longest common subsequence of words.
function changedParts(before, after) {
  const old = splitWords(before);
  const now = splitWords(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  )
    end++;
  const middle = commonWords(old.slice(start, old.length - end), now.slice(start, now.length - end));
  const common = now.map((_, at) => at < start || at >= now.length - end || middle[at - start]);
  return joinParts(now, common);
}

// For every word of `now` whether it is part of the longest common subsequence.
function commonWords(old, now) {
  const common = new Array(now.length).fill(false);
  const width = now.length + 1;
  if ((old.length + 1) * width > MAX_CELLS) return common;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        old[i] === now[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < old.length && j < now.length;) {
    if (old[i] === now[j]) {
      common[j++] = true;
      i++;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
    else j++;
  }
  return common;
}

// Neighbors of the same kind become one part; white space between two changed words counts as changed.
function joinParts(words, common) {
  const parts = [];
  words.forEach((word, at) => {
    const space = /^\s+$/.test(word);
    const changed = space ? at > 0 && at < words.length - 1 && !common[at - 1] && !common[at + 1] : !common[at];
    const last = parts.at(-1);
    if (last && last.changed === changed) last.text += word;
    else parts.push({ text: word, changed });
  });
  return parts;
}

function countChanged(parts) {
  return parts
    .filter((part) => part.changed)
    .reduce((sum, part) => sum + splitWords(part.text).filter((word) => /[\p{L}\p{N}]/u.test(word)).length, 0);
}
