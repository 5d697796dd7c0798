// Forms that select what a chart shows: a change reloads the chart and updates the URL.

const connectedPlots = new WeakSet();

export function startChartForms() {
  for (const form of document.querySelectorAll("form[data-charts]")) {
    form.addEventListener("change", () => apply(form));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      apply(form);
    });
  }
  document.addEventListener("chart-drawn", connectPlot);
}

function apply(form) {
  const query = queryOf(form);
  for (const id of form.dataset.charts.split(" ")) {
    const chart = document.getElementById(id);
    if (!chart) continue;
    chart.dataset.query = joined(chart.dataset.fixed, query);
    chart.dispatchEvent(new Event("chart-query-changed"));
  }
  history.replaceState(history.state, "", urlOf(form));
}

// Checkboxes of one name are joined: statistic=l2,max.
function queryOf(form) {
  const fields = new Map();
  for (const [name, value] of new FormData(form)) {
    if (value !== "") fields.set(name, fields.has(name) ? `${fields.get(name)},${value}` : value);
  }
  return new URLSearchParams([...fields]).toString();
}

function urlOf(form) {
  const url = new URL(location.href);
  for (const field of form.elements) if (field.name) url.searchParams.delete(field.name);
  for (const [name, value] of new FormData(form)) if (value !== "") url.searchParams.append(name, value);
  return url;
}

function joined(...parts) {
  return parts.filter(Boolean).join("&");
}

// A click on a cell of the layer heat map opens its tensor at that step.
function connectPlot(event) {
  const chart = event.target;
  const plot = event.detail?.plot;
  if (!plot || !chart.dataset?.cells || connectedPlots.has(plot)) return;
  connectedPlots.add(plot);
  plot.on("plotly_click", ({ points }) => {
    const [row] = [points[0].pointIndex ?? points[0].pointNumber].flat();
    const rows = plot.layout.meta?.rows ?? [];
    const drawnRows = points[0].data.y.length;
    const name = rows[Math.floor((row * rows.length) / drawnRows)];
    if (name !== undefined) location.href = `${chart.dataset.cells}?${new URLSearchParams({ name, step: String(Math.round(points[0].x)) })}`;
  });
}
