"use strict";
// Unpacks plotly, draws every plot in the page's own colours, and again when the reader's colour scheme changes.
(async function () {
  const figures = JSON.parse(document.getElementById("plot-data").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const formatColour = (format) => colour("--format-" + format) || colour("--format-other");

  function painted(trace) {
    const own = formatColour(trace.meta.format);
    const copy = JSON.parse(JSON.stringify(trace));
    if (copy.fill) copy.fillcolor = own + "40";
    if (copy.line) copy.line.color = own;
    if (copy.error_x) copy.error_x.color = own;
    if (copy.marker) {
      copy.marker.color = own;
      const symbols = [].concat(copy.marker.symbol);
      copy.marker.line.color = symbols.map((one) => (one === "line-ns" ? own : colour("--panel")));
    }
    return copy;
  }

  function framed(layout) {
    const copy = JSON.parse(JSON.stringify(layout));
    const axis = { gridcolor: colour("--rule"), linecolor: colour("--rule"), zerolinecolor: colour("--faint"), tickcolor: colour("--rule") };
    copy.xaxis = Object.assign({}, axis, copy.xaxis);
    copy.yaxis = Object.assign({}, axis, copy.yaxis);
    for (const shape of copy.shapes || []) shape.line.color = colour("--limit");
    return Object.assign(copy, {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: colour("--sans"), size: 13, color: colour("--ink") },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: colour("--faint"), font: { family: colour("--sans"), color: colour("--ink") } },
    });
  }

  function draw() {
    for (const [key, figure] of Object.entries(figures)) {
      Plotly.react(key, figure.data.map(painted), framed(figure.layout), { responsive: true, displayModeBar: false });
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
