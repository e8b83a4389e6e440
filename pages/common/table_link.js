// The tables of sites on the page, as Streamlit draws them: rows on a canvas, and in it a hidden table of the rows in
// view. Where its first column is the site, the row under the pointer is pointed at, and the site that others point at
// is framed. Rows, the heading too, are ROW pixels high.
const ROW = 35;

function grids() {
  return [...document.querySelectorAll("canvas[data-testid=data-grid-canvas]")]
    .filter((canvas) => canvas.querySelector("thead th")?.textContent === "site");
}

function rowsOf(canvas) {
  const scrolled = canvas.closest("[data-testid=stDataFrame]")?.querySelector(".dvn-scroller")?.scrollTop ?? 0;
  return [...canvas.querySelectorAll("tbody tr")].map((row) => ({
    site: Number.parseInt(row.querySelector("td")?.textContent, 10),
    top: ROW * (Number(row.getAttribute("aria-rowindex")) - 1) - scrolled,
  })).filter(({ site, top }) => !Number.isNaN(site) && top >= ROW / 2);
}

function linkTables() {
  const frames = new Map();
  let inside = false;
  const follow = ({ clientX: x, clientY: y }) => {
    const over = grids().find((canvas) => {
      const box = canvas.getBoundingClientRect();
      return x > box.left && x < box.right && y > box.top && y < box.bottom;
    });
    if (!over && inside) pointAt(null);
    inside = Boolean(over);
    const down = over && y - over.getBoundingClientRect().top;
    const row = over && rowsOf(over).find(({ top }) => top <= down && down < top + ROW);
    if (row) pointAt(row.site);
  };
  document.addEventListener("pointermove", follow, true);
  const show = (site) => {
    for (const frame of frames.values()) frame.hidden = true;
    for (const canvas of site === null || inside ? [] : grids()) {
      const row = rowsOf(canvas).find((one) => one.site === site);
      if (!row || row.top + ROW > canvas.clientHeight) continue;
      if (!frames.has(canvas)) frames.set(canvas, document.createElement("div"));
      const frame = frames.get(canvas);
      frame.className = "depthscope-row";
      if (frame.parentElement !== canvas.parentElement) canvas.parentElement.append(frame);
      frame.style.top = `${canvas.offsetTop + row.top}px`;
      frame.hidden = false;
    }
  };
  show.end = () => {
    document.removeEventListener("pointermove", follow, true);
    for (const frame of frames.values()) frame.remove();
  };
  return show;
}
