/* Decompresses the training text: bzip2, for which browsers have no decoder. */

const BLOCK_START = 0x314159; /* The first half of a block's mark. */
const SYMBOLS_PER_TABLE = 50;

/* Returns the `size` bytes of a bzip2 file. Checksums are not compared. */
function expandBzip2(bytes, size) {
  const expanded = new Uint8Array(size), bits = new BitReader(bytes);
  bits.read(24); /* "BZh" */
  const block = new Uint8Array(100_000 * (bits.read(8) - 48));
  let end = 0;
  while (bits.read(24) === BLOCK_START) {
    bits.read(24 + 32 + 1); /* the other half, the checksum, and a bit that is always 0 */
    const origin = bits.read(24), length = readBlock(bits, block);
    end = expandRuns(sorted(block, length), block, origin, length, expanded, end);
  }
  return expanded;
}

class BitReader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  bit() {
    return (this.bytes[this.at >>> 3] >>> (7 - (this.at++ & 7))) & 1;
  }

  read(count) {
    let value = 0;
    while (count--) value = 2 * value + this.bit();
    return value;
  }

  ones() {
    let count = 0;
    while (this.bit()) count++;
    return count;
  }
}

/* Reads the bytes of a block as the Burrows–Wheeler transform orders them; returns their number. */
function readBlock(bits, block) {
  const recent = readUsedBytes(bits), tableCount = bits.read(3), choiceCount = bits.read(15);
  const tables = [...Array(tableCount).keys()];
  const choices = Array.from({ length: choiceCount }, () => moveToFront(tables, bits.ones()));
  const codes = Array.from({ length: tableCount }, () => readCode(bits, recent.length + 2));
  const last = recent.length + 1;
  let length = 0, run = 0, place = 1;
  for (let read = 0; ; read++) {
    const symbol = readSymbol(bits, codes[choices[Math.floor(read / SYMBOLS_PER_TABLE)]]);
    if (symbol < 2) {
      /* Repetitions of the last byte, in base 2 with the digits 1 and 2. */
      run += (symbol + 1) * place;
      place *= 2;
      continue;
    }
    block.fill(recent[0], length, length + run);
    length += run;
    run = 0;
    place = 1;
    if (symbol === last) return length;
    block[length++] = moveToFront(recent, symbol - 1);
  }
}

function readUsedBytes(bits) {
  const groups = bits.read(16), used = [];
  for (let group = 0; group < 16; group++) {
    if (!((groups >>> (15 - group)) & 1)) continue;
    for (let byte = 16 * group; byte < 16 * group + 16; byte++) if (bits.bit()) used.push(byte);
  }
  return used;
}

function moveToFront(list, at) {
  const [value] = list.splice(at, 1);
  list.unshift(value);
  return value;
}

/* Reads a Huffman code: the number of codes of each length, and the symbols in the order of their codes. */
function readCode(bits, symbolCount) {
  let length = bits.read(5);
  const lengths = Array.from({ length: symbolCount }, () => {
    while (bits.bit()) length += bits.bit() ? -1 : 1;
    return length;
  });
  const counts = new Array(21).fill(0);
  for (const each of lengths) counts[each]++;
  const symbols = [...lengths.keys()].sort((a, b) => lengths[a] - lengths[b] || a - b);
  return { counts, symbols };
}

function readSymbol(bits, { counts, symbols }) {
  let code = 0, first = 0, index = 0;
  for (let length = 1; length < counts.length; length++) {
    code += bits.bit();
    if (code - first < counts[length]) return symbols[index + code - first];
    index += counts[length];
    first = 2 * (first + counts[length]);
    code *= 2;
  }
  throw new EngineError("The training text in the page is damaged.");
}

/* Returns, for each byte of a block in sorted order, where it is in the block. */
function sorted(block, length) {
  const starts = new Uint32Array(257), places = new Uint32Array(length);
  for (let i = 0; i < length; i++) starts[block[i] + 1]++;
  for (let byte = 0; byte < 256; byte++) starts[byte + 1] += starts[byte];
  for (let i = 0; i < length; i++) places[starts[block[i]]++] = i;
  return places;
}

/* Writes the text of a block from `end` on; returns where it ends. Four equal bytes are followed by the number of more. */
function expandRuns(places, block, origin, length, expanded, end) {
  let equal = 0, before = -1;
  for (let i = 0, at = places[origin]; i < length; i++, at = places[at]) {
    const byte = block[at];
    if (equal === 4) {
      expanded.fill(before, end, end + byte);
      end += byte;
      equal = 0;
      before = -1;
      continue;
    }
    equal = byte === before ? equal + 1 : 1;
    before = byte;
    expanded[end++] = byte;
  }
  return end;
}
