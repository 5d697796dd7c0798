"use strict";
(() => {
  const HEIGHT = 320;
  const PRINTED_WIDTHS = { third: 232, half: 352, full: 712 }; // px on A4, as in the style sheet
  const AXIS = /^(x|y|z)axis\d*$/;
  const figures = Array.from(document.querySelectorAll("figure.chart"));

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // The title is text of the page, above the plot.
  function withTheme(layout) {
    const result = Object.assign({}, layout, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" });
    result.height = layout.height || HEIGHT;
    delete result.title;
    const hasNotes = (layout.annotations || []).some((note) => note.yref === "paper" && note.y === 1);
    result.margin = Object.assign({}, layout.margin, { t: hasNotes ? 26 : 10 });
    result.font = Object.assign({}, layout.font, { color: colour("--ink") });
    for (const key of Object.keys(result)) {
      if (AXIS.test(key)) {
        result[key] = Object.assign({}, result[key], { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--line") });
      }
    }
    result.hoverlabel = Object.assign({}, layout.hoverlabel, { bgcolor: colour("--soft"), bordercolor: colour("--line"), font: { color: colour("--ink") } });
    return result;
  }

  async function draw(figure, isPrinted) {
    const plot = figure.querySelector(".plot");
    if (!plot.leadline) {
      plot.leadline = JSON.parse(figure.querySelector("script").textContent);
    }
    const spec = plot.leadline;
    const layout = withTheme(spec.layout || {});
    if (isPrinted) layout.width = PRINTED_WIDTHS[["third", "half"].find((name) => figure.classList.contains(name)) || "full"];
    return Plotly.react(plot, spec.data, layout, { responsive: !isPrinted, displaylogo: false, showSendToCloud: false });
  }

  function drawFrom(index) {
    if (index < figures.length) {
      const next = () => setTimeout(() => drawFrom(index + 1), 0);
      draw(figures[index]).then(next, (error) => {
        figures[index].querySelector(".plot").textContent = "chart cannot be drawn: " + error;
        next();
      });
    } else {
      document.documentElement.dataset.drawn = String(figures.length);
    }
  }

  function redraw() {
    figures.forEach((figure) => draw(figure, false).then((plot) => Plotly.Plots.resize(plot)));
  }

  function redrawForPrint() {
    figures.forEach((figure) => draw(figure, true));
  }

  drawFrom(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Long tables are folded on the screen, and whole on paper.
  addEventListener("beforeprint", () => document.querySelectorAll("details.long").forEach((part) => { part.open = true; }));
  matchMedia("print").addEventListener("change", (event) => (event.matches ? redrawForPrint() : redraw()));
})();
