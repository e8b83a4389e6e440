// The tower: bars from input to readout as SVG, upright beside the curves and lying above them on a telephone, redrawn
// in place. Widths, shades and places are the server's; here they become pixels.
const SIDES = { activation: -1, adjoint: 1 };
const TALL = { height: 560, top: 30, bottom: 26, left: 8, right: 8, gutter: 19 };
const LYING = { height: 176, top: 16, bottom: 14, left: 30, right: 10, gutter: 9 };
const NARROW = matchMedia("(max-width: 640px)");
const NAMES = { activation: "activation ratio", adjoint: "gradient ratio" };
const DASHES = { solid: "", dash: "6 4", dot: "2 3", dashdot: "6 3 2 3", longdash: "10 4", longdashdot: "10 3 2 3" };
const KEYS = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 };

function born(parentElement) {
  const place = document.createElement("div");
  place.className = "depthscope-tower";
  place.innerHTML = `<div class="head"><div class="title"></div><div class="subject"></div></div>
    <svg role="slider" tabindex="0" aria-label="Residual sites from input to readout"></svg>
    <div class="words"></div><div class="key"><span class="ramp"></span><span class="told"></span></div><table class="readout"></table>`;
  const svg = place.querySelector("svg");
  const words = place.querySelector(".words");
  words.id = `tower-words-${Math.random().toString(36).slice(2)}`;
  svg.setAttribute("aria-describedby", words.id);
  parentElement.append(place);
  svg.addEventListener("pointermove", (event) => pointAt(siteUnder(place, event)));
  svg.addEventListener("pointerleave", () => pointAt(null));
  svg.addEventListener("click", (event) => choose(siteUnder(place, event)));
  svg.addEventListener("keydown", (event) => walk(place, event));
  svg.addEventListener("blur", () => pointAt(null));
  place.mark = () => mark(place);
  place.send = ({ detail }) => place.tell?.("site", detail === sites.chosen ? -1 : detail);
  place.turn = () => draw(place);
  sites.addEventListener("change", place.mark);
  sites.addEventListener("choose", place.send);
  NARROW.addEventListener("change", place.turn);
  place.watcher = new ResizeObserver(() => {
    if (place.tower && Math.abs(svg.getBoundingClientRect().width - (place.width ?? 0)) > 1) draw(place);
  });
  place.watcher.observe(place);
  return place;
}

function siteUnder(place, event) {
  const { rows, places, main } = place.tower;
  const box = place.querySelector("svg").getBoundingClientRect();
  const [along, across] = place.frame.back(event.clientX - box.left, event.clientY - box.top);
  const found = places.findIndex(([, end]) => along <= end);
  const row = found < 0 ? rows.length - 1 : found;
  return main[across < 0 ? "activation" : "adjoint"].site[row] ?? rows[row][0];
}

function walk(place, event) {
  const { sites: count, each } = place.tower;
  const here = sites.at ?? sites.chosen ?? place.tower.worst;
  const step = { ...KEYS, PageUp: each, PageDown: -each, Home: -here, End: count - 1 - here }[event.key];
  if (event.key === "Enter" || event.key === " ") choose(here);
  else if (event.key === "Escape") pointAt(null);
  else if (step === undefined) return;
  else pointAt(Math.max(0, Math.min(count - 1, here + step)));
  event.preventDefault();
}

// Pixels of a place along the tower (0 input, 1 readout) and of a width on one of its sides.
function framed(width, lying) {
  const { height, top, bottom, left, right, gutter } = lying ? LYING : TALL;
  const [long, start] = lying ? [width - left - right, left] : [height - top - bottom, top];
  const [middle, half] = lying
    ? [(top + height - bottom) / 2, (height - top - bottom) / 2 - gutter]
    : [width / 2, width / 2 - gutter - left];
  const along = (place) => (lying ? start + place * long : start + (1 - place) * long);
  const across = (side, size) => middle + side * (gutter + size * half);
  return {
    lying, width, height, along, across, middle, gutter,
    back: (x, y) => (lying ? [(x - start) / long, y - middle] : [1 - (y - start) / long, x - middle]),
    // A rectangle between two widths and two places as a piece of a path.
    box(side, from, to, begin, end) {
      const [a, b, c, d] = [across(side, from), across(side, to), along(begin), along(end)].map((one) => one.toFixed(1));
      return lying ? `M${c} ${a}V${b}H${d}V${a}Z` : `M${a} ${c}H${b}V${d}H${a}Z`;
    },
  };
}

function bars(tower, frame) {
  const paths = {};
  let spread = "";
  for (const [name, side] of Object.entries(SIDES)) {
    const { width, low, high, shade } = tower.main[name];
    width.forEach((size, row) => {
      const [begin, end] = tower.places[row];
      const inset = (end - begin) * 0.08;
      if (size !== null) paths[shade[row]] = (paths[shade[row]] ?? "") + frame.box(side, 0, size, begin + inset, end - inset);
      if (high[row] > low[row]) {
        const third = (end - begin) * 0.34;
        spread += frame.box(side, low[row], high[row], begin + third, end - third);
      }
    });
  }
  const filled = Object.entries(paths).map(([shade, d]) => `<path d="${d}" fill="${tower.shades[+shade + (tower.shades.length - 1) / 2]}"/>`);
  return filled.join("") + (spread ? `<path class="spread" d="${spread}" fill="${tower.colors.ink}"/>` : "");
}

function outline(tower, frame, series) {
  let d = "";
  for (const [name, side] of Object.entries(SIDES)) {
    let pen = "M";
    series[name].forEach((size, row) => {
      if (size === null) { pen = "M"; return; }
      for (const place of tower.places[row]) {
        const [a, c] = [frame.across(side, size).toFixed(1), frame.along(place).toFixed(1)];
        d += frame.lying ? `${pen}${c} ${a}` : `${pen}${a} ${c}`;
        pen = "L";
      }
    });
  }
  return `<path d="${d}" fill="none" stroke="${series.color}" stroke-width="1.6" stroke-dasharray="${DASHES[series.dash] ?? ""}"/>`;
}

function references(tower, frame) {
  const { limits, colors } = tower;
  let drawn = "";
  for (const side of [-1, 1]) {
    drawn += `<path d="${frame.box(side, limits.lower, limits.upper, 0, 1)}" fill="${colors.band}"/>`;
    for (const [name, color, dash] of [["lower", colors.band_edge, "2 3"], ["upper", colors.band_edge, "2 3"], ["one", colors.muted, "10 4"]]) {
      const a = frame.across(side, limits[name]);
      const [c, d] = [frame.along(0), frame.along(1)];
      const ends = frame.lying ? `x1="${c}" x2="${d}" y1="${a}" y2="${a}"` : `x1="${a}" x2="${a}" y1="${c}" y2="${d}"`;
      drawn += `<line class="limit" data-limit="${name}" data-side="${side}" ${ends} stroke="${color}" stroke-dasharray="${dash}"/>`;
    }
  }
  return drawn;
}

function text(x, y, words, anchor = "middle", kind = "") {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" class="${kind}">${words}</text>`;
}

function letters(tower, frame) {
  const { lying, width, height, along, across, middle } = frame;
  let drawn = "";
  for (const side of [-1, 1]) {
    for (const [size, words] of tower.ticks) {
      drawn += lying ? text(26, across(side, size) + 4, words, "end") : text(across(side, size), height - 9, words);
    }
  }
  for (const [place, words] of tower.blocks) {
    drawn += lying ? text(along(place), middle + 3.5, words, "middle", "small") : text(middle, along(place) + 3.5, words);
  }
  if (lying) {
    drawn += text(width - 24, 11, "activations", "end", "side") + text(width - 24, height - 3, "gradients", "end", "side");
    return drawn + arrow(width - 21, 7, "h9m-4 -4l4 4l-4 4") + arrow(width - 11, height - 7, "h-9m4 -4l-4 4l4 4") + text(32, height - 3, "input", "start", "side");
  }
  const [left, right] = [across(-1, 0.5), across(1, 0.5)];
  drawn += text(left, 13, "activations", "middle", "side") + text(right, 13, "gradients", "middle", "side");
  drawn += arrow(left - 42, 14, "v-10m-4 4l4 -4l4 4") + arrow(right + 39, 4, "v10m-4 -4l4 4l4 -4");
  return drawn + text(middle, 26, "readout") + text(middle, height - 9, "input");
}

function arrow(x, y, path) {
  return `<path class="arrow" d="M${x} ${y}${path}"/>`;
}

function draw(place) {
  const { tower } = place;
  const svg = place.querySelector("svg");
  const width = svg.getBoundingClientRect().width || place.getBoundingClientRect().width;
  if (!width) return;
  const frame = (place.frame = framed(width, NARROW.matches));
  place.width = width;
  place.classList.toggle("lying", frame.lying);
  svg.setAttribute("viewBox", `0 0 ${width} ${frame.height}`);
  svg.style.height = `${frame.height}px`;
  for (const name of ["muted", "ink", "accent", "paper"]) svg.style.setProperty(`--${name}`, tower.colors[name]);
  svg.setAttribute("aria-orientation", frame.lying ? "horizontal" : "vertical");
  const trunk = frame.lying
    ? `<rect class="trunk" x="${frame.along(0)}" width="${frame.along(1) - frame.along(0)}" y="${frame.middle - frame.gutter}" height="${2 * frame.gutter}"/>`
    : `<rect class="trunk" x="${frame.middle - frame.gutter}" width="${2 * frame.gutter}" y="${frame.along(1)}" height="${frame.along(0) - frame.along(1)}"/>`;
  const pieces = [references(tower, frame), trunk, bars(tower, frame), ...tower.outlines.map((one) => outline(tower, frame, one))];
  svg.innerHTML = `${pieces.join("")}${letters(tower, frame)}<rect class="chosen"/><rect class="at"/>`;
  mark(place);
}

function outlineRow(place, name, site) {
  const box = place.querySelector(`svg .${name}`);
  const row = site === null ? -1 : place.tower.rows.findIndex(([first, last]) => first <= site && site <= last);
  box.setAttribute("visibility", row < 0 ? "hidden" : "visible");
  if (row < 0) return;
  const { frame } = place;
  const ends = place.tower.places[row].map(frame.along);
  const [begin, long] = [Math.min(...ends), Math.max(3, Math.abs(ends[0] - ends[1]))];
  const [from, to] = [frame.across(-1, 1), frame.across(1, 1)];
  const set = frame.lying ? { x: begin, y: from, width: long, height: to - from } : { x: from, y: begin, width: to - from, height: long };
  for (const [key, value] of Object.entries(set)) box.setAttribute(key, value);
}

function cell(row, kind, words, span = 1) {
  const one = document.createElement(kind);
  one.textContent = words;
  if (span > 1) one.colSpan = span;
  row.append(one);
  return one;
}


function told(tower, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  const side = value < tower.band[0] ? " below" : value > tower.band[1] ? " above" : "";
  return `${Number(value.toPrecision(4))}${side}`;
}

// All runs at one site, in one table.
function read(place, site, why) {
  const { tower } = place;
  const table = place.querySelector(".readout");
  table.replaceChildren();
  const head = table.createTHead();
  cell(head.insertRow(), "th", `${why}: site ${site}, ${tower.labels[site] ?? ""}`, 3).className = "where";
  const names = head.insertRow();
  cell(names, "th", "run");
  for (const name of Object.keys(SIDES)) cell(names, "th", NAMES[name]);
  const body = table.createTBody();
  for (const series of tower.series) {
    const row = body.insertRow();
    const name = cell(row, "td", series.name);
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.borderColor = series.color;
    swatch.style.borderTopStyle = series.dash === "solid" ? "solid" : series.dash.includes("dot") ? "dotted" : "dashed";
    name.prepend(swatch);
    for (const quantity of Object.keys(SIDES)) {
      const [median, low, high] = series[quantity].map((values) => values[site]);
      const number = cell(row, "td", told(tower, median));
      if (low === undefined || median === undefined) continue;
      const range = document.createElement("small");
      range.textContent = ` ${told(tower, low)} to ${told(tower, high)}`;
      number.append(range);
    }
  }
  return [...body.rows].map((row) => [...row.cells].map((one) => one.textContent.trim()).join(" ")).join("; ");
}

function mark(place) {
  const { tower } = place;
  if (!place.frame) return;
  const within = (site) => (site !== null && site < tower.sites ? site : null);
  const [at, picked] = [within(sites.at), within(sites.chosen)];
  outlineRow(place, "at", at);
  outlineRow(place, "chosen", picked);
  const [site, why] = at !== null ? [at, "Here"] : picked !== null ? [picked, "Chosen"] : [tower.worst, "Nearest to a limit"];
  const words = read(place, site, why);
  const svg = place.querySelector("svg");
  svg.setAttribute("aria-valuemin", 0);
  svg.setAttribute("aria-valuemax", tower.sites - 1);
  svg.setAttribute("aria-valuenow", site);
  svg.setAttribute("aria-valuetext", `site ${site}, ${tower.labels[site] ?? ""}: ${words}`);
  place.tables?.(at ?? picked);
}

// While a slider is dragged the server hears of it at its release alone; the tower asks for each depth on the way, one
// question at a time.
function follow(place, key) {
  const depth = () => Number(document.querySelector(`.st-key-${CSS.escape(key)} input[type=range]`)?.value);
  const ask = () => {
    const now = depth();
    if (Number.isNaN(now) || now === place.asked || place.waiting) return;
    place.asked = now;
    place.waiting = setTimeout(() => { place.waiting = 0; ask(); }, 1000);
    place.tell("depth", now);
  };
  const later = () => requestAnimationFrame(ask);
  // Without a question the page was run as a whole, at the slider's own depth.
  place.answered = (asked) => { clearTimeout(place.waiting); place.waiting = 0; place.asked = asked ?? depth(); later(); };
  const dragging = (event) => event.buttons && later();
  document.addEventListener("pointermove", dragging, true);
  return () => document.removeEventListener("pointermove", dragging, true);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const place = parentElement.querySelector(":scope > .depthscope-tower") ?? born(parentElement);
  place.tell = setTriggerValue;
  place.tower = JSON.parse(data.tower);
  place.querySelector(".title").textContent = place.tower.title;
  place.querySelector(".subject").textContent = place.tower.subject;
  place.querySelector(".words").textContent = place.tower.alt;
  place.querySelector(".told").textContent = place.tower.key;
  const steps = place.tower.shades.map((shade) => `<i style="background:${shade}"></i>`);
  place.querySelector(".ramp").innerHTML = `below ${steps.join("")} above`;
  chosen(data.site);
  draw(place);
  if (data.follow && !place.unfollow) place.unfollow = follow(place, data.follow);
  place.answered?.(data.asked);
  place.tables ??= linkTables();
  return () => {
    place.unfollow?.();
    place.tables?.end();
    place.watcher.disconnect();
    sites.removeEventListener("change", place.mark);
    sites.removeEventListener("choose", place.send);
    NARROW.removeEventListener("change", place.turn);
    [sites.at, sites.chosen] = [null, null];
    place.remove();
  };
}
