"use strict";
(() => {
  const HEIGHT = 320;
  const AXIS = /^(x|y|z)axis\d*$/;
  const places = Array.from(document.querySelectorAll("figure.chart"));

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function dressed(layout) {
    const told = Object.assign({}, layout, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" });
    told.height = layout.height || HEIGHT;
    told.font = Object.assign({}, layout.font, { color: colour("--ink") });
    for (const key of Object.keys(told)) {
      if (AXIS.test(key)) {
        told[key] = Object.assign({}, told[key], { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--line") });
      }
    }
    told.hoverlabel = Object.assign({}, layout.hoverlabel, { bgcolor: colour("--soft"), bordercolor: colour("--line"), font: { color: colour("--ink") } });
    return told;
  }

  async function draw(place) {
    const plot = place.querySelector(".plot");
    if (!plot.leadline) {
      plot.leadline = JSON.parse(place.querySelector("script").textContent);
    }
    const told = plot.leadline;
    return Plotly.react(plot, told.data, dressed(told.layout || {}), { responsive: true, displaylogo: false });
  }

  function drawFrom(index) {
    if (index < places.length) {
      const next = () => setTimeout(() => drawFrom(index + 1), 0);
      draw(places[index]).then(next, (error) => {
        places[index].querySelector(".plot").textContent = "this chart could not be drawn: " + error;
        next();
      });
    } else {
      document.documentElement.dataset.drawn = String(places.length);
    }
  }

  function redraw() {
    places.forEach((place) => draw(place).then((plot) => Plotly.Plots.resize(plot)));
  }

  drawFrom(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
})();
