// Ticks of scales.

// A step of 1, 2 or 5 times a power of ten that divides the range into about `count` parts.
function niceTicks(largest, count) {
  if (!(largest > 0)) return [0];
  const power = 10 ** Math.floor(Math.log10(largest / count));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size * count >= largest * 0.999);
  return Array.from({ length: Math.floor(largest / step + 1e-6) + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}

function logarithmicTicks(smallest, largest) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(smallest)); power <= Math.log10(largest); power++) {
    ticks.push(...[1, 2, 5].map((factor) => Number((factor * 10 ** power).toPrecision(6))));
  }
  return ticks.filter((tick) => tick >= smallest && tick <= largest);
}
