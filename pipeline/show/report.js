"use strict";
// Unpacks plotly, draws every plot in the page's own colours, and again when the reader's colour scheme changes, the
// page gets narrow or wide, or is printed.
(async function () {
  const figures = JSON.parse(document.getElementById("plot-data").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const formatColour = (format) => colour("--format-" + format) || colour("--format-other");
  const narrow = matchMedia("(max-width: 640px)"), dark = matchMedia("(prefers-color-scheme: dark)"), print = matchMedia("print");
  const printPx = 680; // what a page of A4 has between its margins

  function painted(trace) {
    const own = formatColour(trace.meta.format);
    const copy = JSON.parse(JSON.stringify(trace));
    if (copy.fill) copy.fillcolor = own + "40";
    if (copy.line) copy.line.color = own;
    if (copy.error_x) copy.error_x.color = own;
    if (copy.marker) {
      copy.marker.color = own;
      const symbols = [].concat(copy.marker.symbol);
      copy.marker.line.color = symbols.map((one) => (/^line-ns$|-open$/.test(one) ? own : colour("--panel")));
    }
    return copy;
  }

  function framed(layout, width) {
    const copy = JSON.parse(JSON.stringify(layout));
    const axis = { gridcolor: colour("--rule"), linecolor: colour("--rule"), zerolinecolor: colour("--faint"), tickcolor: colour("--rule") };
    copy.xaxis = Object.assign({}, axis, copy.xaxis);
    copy.yaxis = Object.assign({}, axis, copy.yaxis);
    for (const shape of copy.shapes || []) shape.line.color = colour("--limit");
    if (narrow.matches || width) copy.margin = Object.assign({}, copy.margin, { l: 4, r: 8 });
    const names = copy.meta && (narrow.matches ? copy.meta.narrow : width && copy.meta.print);
    if (names) copy.annotations = names;
    if (width) copy.height = Math.round(copy.height * 0.74); // two to a page
    else if (narrow.matches) shorten(copy);
    return Object.assign(copy, {
      width: width,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: colour("--sans"), size: narrow.matches || width ? 11 : 13, color: colour("--ink") },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: colour("--faint"), font: { family: colour("--sans"), color: colour("--ink") } },
    });
  }

  // On a phone a label in two lines leaves room for its row, and fewer ticks stay apart.
  function shorten(layout) {
    const label = (text) => text.replace(" \u00b7 ", "<br>").replace(" in ", "<br>in ");
    if (layout.yaxis.ticktext && !layout.yaxis.type) layout.yaxis.ticktext = layout.yaxis.ticktext.map(label);
    for (const axis of [layout.xaxis, layout.yaxis]) {
      if (axis.title) axis.title.font.size = 10;
      if (axis.type !== "log" || !axis.tickvals) continue;
      const digits = axis.tickvals.length > 12 ? /^1/ : /^[15]/;
      axis.ticktext = axis.tickvals.map((value, at) => (digits.test(value.toExponential()) ? axis.ticktext[at] : ""));
      axis.tickangle = 0;
    }
  }

  function draw(width) {
    for (const [key, figure] of Object.entries(figures)) {
      Plotly.react(key, figure.data.map(painted), framed(figure.layout, width), { responsive: !width, displayModeBar: false });
    }
  }

  // The policy of the page names the digest of what is unpacked here: nothing else would run.
  async function loadPlotly() {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (one) => one.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
  }

  if (typeof DecompressionStream === "undefined") {
    for (const key of Object.keys(figures)) {
      document.getElementById(key).textContent = "The plots need a browser of 2023 or later; every number in them stands in the tables.";
    }
    return;
  }
  await loadPlotly();
  draw();
  for (const query of [dark, narrow]) query.addEventListener("change", () => draw());
  print.addEventListener("change", () => draw(print.matches ? printPx : undefined));
})();
