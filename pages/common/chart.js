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
  // The window's size alone is watched by Plotly; a sidebar that opens changes the width too.
  plot.watcher = new ResizeObserver(() => {
    const { width, height } = plot.getBoundingClientRect();
    const size = plot._fullLayout;
    if (size && width > 0 && (Math.abs(width - size.width) > 1 || Math.abs(height - size.height) > 1)) {
      window.Plotly.Plots.resize(plot);
    }
  });
  plot.watcher.observe(plot);
  return plot;
}

// What a reader hid or zoomed into stays as long as the figure has the same axes and series.
function kept(data, layout) {
  const axes = Object.keys(layout).filter((name) => /^[xy]axis/.test(name));
  return JSON.stringify([axes.map((name) => [layout[name].type, layout[name].title?.text]), data.map((one) => one.name)]);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const plot = parentElement.querySelector(":scope > .depthscope-figure") ?? born(parentElement);
  const { data: traces, layout } = JSON.parse(data.figure);
  plot.setAttribute("aria-label", data.alt);
  plot.style.height = `${layout.height}px`;
  delete layout.height;
  layout.autosize = true;
  layout.uirevision = kept(traces, layout);
  const turn = (plot.turn = (plot.turn ?? 0) + 1);
  const draw = (Plotly) => {
    if (turn !== plot.turn || !plot.isConnected) return;
    Plotly.react(plot, traces, layout, { ...data.config, responsive: true, modeBarButtonsToAdd: [FULLSCREEN] });
    plot.removeAllListeners?.("plotly_click");
    if (data.selects) plot.on("plotly_click", ({ points }) => setTriggerValue("point", points[0].customdata));
  };
  if (window.Plotly) draw(window.Plotly);
  else library().then(draw, () => { plot.textContent = data.alt; });
  return () => {
    plot.watcher.disconnect();
    window.Plotly?.purge(plot);
    plot.remove();
  };
}
