(plot) => {
  // Layouts are reckoned for the app's own font; where a page has a wider one, the figure makes the room that is missing.
  const box = (one) => one.getBoundingClientRect();
  const all = (selector) => [...plot.querySelectorAll(selector)];
  const broken = (name, letters) => name.split(" ").reduce((lines, word) => {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + word.length < letters) lines[last] += ` ${word}`;
    else lines.push(word);
    return lines;
  }, []).join("<br>");
  const fold = () => {
    const edge = box(plot).right - 4;
    const names = plot.data.map((trace) => trace.name);
    for (const text of all(".legendtext")) {
      const { left, right, width } = box(text);
      const index = names.indexOf(text.dataset.unformatted);
      if (right > edge && index >= 0) names[index] = broken(names[index], Math.floor(names[index].length * (edge - left) / width));
    }
    const changed = names.map((_, index) => index).filter((index) => names[index] !== plot.data[index].name);
    return changed.length ? Plotly.restyle(plot, { name: changed.map((index) => names[index]) }, changed) : Promise.resolve();
  };
  const widen = () => {
    const [title] = all(".ytitle");
    const ticks = all(".ytick text").map((tick) => box(tick).left);
    const over = title && ticks.length ? Math.ceil(box(title).right + 4 - Math.min(...ticks)) : 0;
    return over > 0 ? Plotly.relayout(plot, { "margin.l": plot.layout.margin.l + over }) : Promise.resolve();
  };
  const grow = () => {
    const [legend] = all(".legend");
    const missing = legend ? Math.ceil(box(legend).bottom - box(plot).bottom) : 0;
    const { height, margin } = plot.layout;
    const whole = height + missing;
    return missing > 0
      ? Plotly.relayout(plot, {
        height: whole, "margin.b": margin.b + missing, "legend.y": (plot.layout.legend.y * height + missing) / whole,
      })
      : Promise.resolve();
  };
  return widen().then(fold).then(grow);
}
