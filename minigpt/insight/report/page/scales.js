// Scales of charts, and places for labels that do not cover one another.

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

// What a horizontal axis counts: {name, format(value), ticks(largest, count)}.
const AXES = {
  step: { name: "Training steps", short: "step", format: formatInteger, ticks: integerTicks, label: formatShort },
  seconds: { name: "Time", short: "after", format: formatDuration, ticks: timeTicks, label: formatDuration },
  tokens: { name: "Tokens trained on", short: "after", format: (value) => `${formatMillions(Math.round(value))} tokens`, ticks: niceTicks, label: formatShort },
};

function integerTicks(largest, count) {
  return niceTicks(largest, count).filter(Number.isInteger);
}

function timeTicks(largest, count) {
  const step = TIME_STEPS.find((size) => size * count >= largest) ?? Math.ceil(largest / count / 86400) * 86400;
  return Array.from({ length: Math.min(50, Math.floor(largest / step + 1e-6) + 1) }, (_, at) => at * step);
}

// 90 → "1 min 30 s", 3600 → "1 h": parts that are zero are left out.
function formatDuration(seconds) {
  if (!(seconds >= 0)) return "–";
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [days, hours] = [Math.floor(whole / 86400), Math.floor((whole % 86400) / 3600)];
  const parts = [
    [days, "d"],
    [hours, "h"],
    [Math.floor((whole % 3600) / 60), "min"],
    [whole % 60, "s"],
  ].filter(([size]) => size > 0);
  return parts.length ? parts.slice(0, 2).map(([size, name]) => `${size} ${name}`).join(" ") : "0 s";
}

// 1,200,000 → "1.2M"
function formatShort(number) {
  const [unit, name] = Math.abs(number) < 1e4 ? [1, ""] : Math.abs(number) < 1e6 ? [1e3, "k"] : Math.abs(number) < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return unit === 1 ? formatInteger(number) : `${Number((number / unit).toPrecision(3))}${name}`;
}

function formatBinary(bytes) {
  return bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

function rangeTicks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size * count >= span * 0.999);
  const first = Math.ceil(low / step - 1e-6);
  const length = Math.min(100, Math.floor(high / step + 1e-6) - first + 1);
  return Array.from({ length }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

// {low, high, ticks, share(value)}: share is 0 at the lower end of the scale and 1 at the upper end.
function valueScale(values, { logarithmic, fromZero, count }) {
  const usable = values.filter((value) => Number.isFinite(value) && (!logarithmic || value > 0));
  let low = usable.reduce((least, value) => Math.min(least, value), Infinity);
  let high = usable.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!usable.length) [low, high] = logarithmic ? [1, 10] : [0, 1];
  if (logarithmic) {
    [low, high] = [low / 1.06, high * 1.06];
    const share = (value) => (Math.log(Math.max(value, low)) - Math.log(low)) / (Math.log(high) - Math.log(low));
    return { low, high, ticks: dense(logarithmicTicks(low, high), low, high), share };
  }
  if (fromZero || (low >= 0 && low < 0.4 * high)) low = Math.min(0, low);
  else low -= 0.05 * (high - low || Math.abs(low) || 1);
  high += 0.05 * (high - low || Math.abs(high) || 1);
  const share = (value) => (value - low) / (high - low);
  return { low, high, ticks: rangeTicks(low, high, count), share };
}

// Between 1, 2, 5, 10 a narrow scale has further ticks; a wide one has powers of ten only.
function dense(ticks, low, high) {
  if (ticks.length < 3) return rangeTicks(low, high, 4).filter((tick) => tick > 0);
  return ticks.length <= 9 ? ticks : ticks.filter((tick) => Number.isInteger(Math.log10(tick)));
}

// Moves places (from the top, in ascending order) so far apart that they have a distance of `size`.
function apart(places, size, top, bottom) {
  const moved = places.slice();
  for (let at = 1; at < moved.length; at++) moved[at] = Math.max(moved[at], moved[at - 1] + size);
  let limit = bottom;
  for (let at = moved.length - 1; at >= 0; at--, limit -= size) moved[at] = Math.max(top, Math.min(moved[at], limit));
  return moved;
}
