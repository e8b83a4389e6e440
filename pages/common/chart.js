// A Plotly figure that is redrawn in place when its data change, where Streamlit's own element builds it anew, twice.
// LIBRARY stands for the address that the server answers Plotly's script at, beside the app.
let loading;

function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("LIBRARY", document.baseURI);
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { loading = undefined; script.remove(); reject(new Error(`no answer at ${script.src}`)); };
    document.head.append(script);
  });
  return loading;
}

// Pixels kept free below a legend.
const EDGE = 12;
const EXPAND = { width: 24, height: 24, path: "M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z" };
const FULLSCREEN = {
  name: "Fullscreen", title: "Fullscreen", icon: EXPAND,
  click: (plot) => (document.fullscreenElement ? document.exitFullscreen() : plot.requestFullscreen()),
};

function born(parentElement) {
  const plot = document.createElement("div");
  plot.className = "depthscope-figure";
  plot.setAttribute("role", "figure");
  parentElement.append(plot);
  // Plotly would watch the window's size alone; a sidebar that opens changes the width too.
  plot.watcher = new ResizeObserver(() => {
    const { width, height } = plot.getBoundingClientRect();
    const size = plot._fullLayout;
    if (size && Math.abs(width - size.width) > 1) heighten(plot, 0);
    if (size && width > 0 && (Math.abs(width - size.width) > 1 || Math.abs(height - size.height) > 1)) {
      plot.redraw();
    }
  });
  plot.watcher.observe(plot);
  return plot;
}

// A narrow column breaks a legend into more rows than have room below the axes; the figure grows by what is missing.
function heighten(plot, pixels) {
  plot.grown = pixels;
  plot.style.height = `${plot.reserved + pixels}px`;
}

function grow(plot, layout) {
  const { height } = layout;
  layout.height += plot.grown;
  layout.margin.b += plot.grown;
  if (layout.legend?.yref === "container") layout.legend.y = (layout.legend.y * height + plot.grown) / layout.height;
}

function missing(plot) {
  const legend = plot.querySelector(".legend");
  return legend ? Math.ceil(legend.getBoundingClientRect().bottom - plot.getBoundingClientRect().bottom) : 0;
}

// What hangs below the axes is placed in parts of a height, and would leave its place on a whole screen.
function hang(traces, layout, reserved, height) {
  const hung = [layout.legend, ...traces.map((one) => one.colorbar)].filter(Boolean);
  const edges = layout.margin.t + layout.margin.b;
  for (const one of hung) {
    if (one.yref === "container") one.y *= reserved / Math.max(height, 1);
    else if (one.y < 0) one.y *= (reserved - edges) / Math.max(height - edges, 1);
  }
}

// A zoom outlives data that bring their own range; Plotly alone would go to that range.
function zoom(plot, axes, layout) {
  for (const name of axes) {
    const [given, now] = [plot.given?.[name], plot.layout?.[name]];
    if (given && now?.range && !now.autorange && String(given) !== String(now.range)) layout[name].range = now.range;
  }
}

// What a reader hid or zoomed into stays as long as the figure has the same axes and series.
function kept(data, axes, layout) {
  return JSON.stringify([axes.map((name) => [layout[name].type, layout[name].title?.text]), data.map((one) => one.name)]);
}

// Where a figure has a residual site, in pixels of the plot: a column of its axes, or one of its points; null where it
// is out of the range.
function siteAt(plot, site) {
  const { xaxis, yaxis, meta } = plot._fullLayout;
  if (site === null) return null;
  if (meta.link === "x") {
    const x = xaxis.l2p(site);
    return x >= 0 && x <= xaxis._length ? { left: xaxis._offset + x, top: yaxis._offset, height: yaxis._length } : null;
  }
  for (const { customdata, x, y } of plot._fullData) {
    const place = customdata?.indexOf(site) ?? -1;
    if (place >= 0) return { left: xaxis._offset + xaxis.d2p(x[place]), top: yaxis._offset + yaxis.d2p(y[place]) };
  }
  return null;
}

function put(plot, kind, site) {
  const found = siteAt(plot, site);
  let mark = plot.querySelector(`:scope > .depthscope-${kind}`);
  if (!mark) {
    mark = document.createElement("div");
    mark.className = `depthscope-mark depthscope-${kind}`;
    plot.append(mark);
  }
  mark.hidden = !found;
  if (!found) return;
  const ring = found.height === undefined;
  mark.classList.toggle("ring", ring);
  mark.style.transform = `translate(${found.left}px, ${found.top}px)`;
  mark.style.height = ring ? "" : `${found.height}px`;
}

// Show the site that the page points at, with the values of all lines there, and the one that is chosen.
function show(plot) {
  const layout = plot._fullLayout;
  if (!layout?.meta?.link || !plot.isConnected) return;
  put(plot, "chosen", sites.chosen);
  put(plot, "at", sites.at);
  // The figure under the pointer says its values itself.
  if (layout.meta.link !== "x" || plot.matches(":hover")) return;
  if (sites.at === null || !inSight(plot)) { if (plot.told) window.Plotly.Fx.unhover(plot); plot.told = false; return; }
  plot.told = true;
  window.Plotly.Fx.hover(plot, { xval: sites.at }, "xy");
}

function listen(plot) {
  const site = ({ points }) => (plot._fullLayout.meta.link === "x" ? points[0].x : points[0].customdata);
  plot.on("plotly_hover", (event) => plot.matches(":hover") && Number.isInteger(site(event)) && pointAt(site(event)));
  plot.on("plotly_unhover", () => plot.matches(":hover") && pointAt(null));
  plot.on("plotly_click", (event) => choose(site(event)));
  plot.on("plotly_afterplot", () => show(plot));
  plot.addEventListener("pointerleave", () => pointAt(null));
  plot.shown = () => { cancelAnimationFrame(plot.frame); plot.frame = requestAnimationFrame(() => show(plot)); };
  sites.addEventListener("change", plot.shown);
}

// Milliseconds after which a figure out of sight is drawn: one in sight need not wait for it.
const LATER = 200;

function inSight(plot) {
  const { top, bottom } = plot.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const plot = parentElement.querySelector(":scope > .depthscope-figure") ?? born(parentElement);
  plot.reserved = JSON.parse(data.figure).layout.height;
  plot.setAttribute("aria-label", data.alt);
  heighten(plot, plot.grown ?? 0);
  const turn = (plot.turn = (plot.turn ?? 0) + 1);
  const draw = (Plotly) => {
    if (turn !== plot.turn || !plot.isConnected) return;
    const { data: traces, layout } = JSON.parse(data.figure);
    const axes = Object.keys(layout).filter((name) => /^[xy]axis/.test(name));
    const given = Object.fromEntries(axes.map((name) => [name, layout[name].range && [...layout[name].range]]));
    grow(plot, layout);
    const reserved = layout.height;
    delete layout.height;
    layout.autosize = true;
    layout.uirevision = kept(traces, axes, layout);
    hang(traces, layout, reserved, plot.getBoundingClientRect().height || reserved);
    if (plot.layout?.uirevision === layout.uirevision) zoom(plot, axes, layout);
    Plotly.react(plot, traces, layout, { ...data.config, responsive: false, modeBarButtonsToAdd: [FULLSCREEN] });
    plot.given = given;
    // The observer of the size draws it again.
    if (missing(plot) > 0) heighten(plot, plot.grown + missing(plot));
    // A wide column needs fewer rows than have room; what follows takes the rest.
    const spare = Math.max(0, -missing(plot) - EDGE);
    plot.style.marginBottom = `${-spare}px`;
    plot.style.clipPath = spare ? `inset(0 0 ${spare}px)` : "";
    // Home and a double click go to the range of these data, not to that of the first ones.
    for (const name of axes) {
      const axis = plot._fullLayout[name];
      if (axis && given[name]) [axis._rangeInitial0, axis._rangeInitial1] = given[name];
    }
    if (layout.meta?.link && !plot.shown) listen(plot);
    show(plot);
    if (data.selects) plot.removeAllListeners?.("plotly_click");
    if (data.selects) plot.on("plotly_click", ({ points }) => setTriggerValue("point", points[0].customdata));
  };
  plot.redraw = () => draw(window.Plotly);
  const inTurn = (Plotly) => (inSight(plot) ? draw(Plotly) : setTimeout(draw, LATER, Plotly));
  if (window.Plotly) inTurn(window.Plotly);
  else library().then(inTurn, () => { plot.textContent = data.alt; });
  return () => {
    plot.watcher.disconnect();
    if (plot.shown) sites.removeEventListener("change", plot.shown);
    window.Plotly?.purge(plot);
    plot.remove();
  };
}
