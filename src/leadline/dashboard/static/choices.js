// Forms that choose what a chart shows: it is asked for anew as soon as something else is chosen, and the address says so.

const heard = new WeakSet();

export function startChoices() {
  for (const form of document.querySelectorAll("form[data-charts]")) {
    form.addEventListener("change", () => choose(form));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      choose(form);
    });
    for (const button of form.querySelectorAll("[data-without-script]")) button.hidden = true;
  }
  document.addEventListener("chart-drawn", listen);
}

function choose(form) {
  const query = questionOf(form);
  for (const id of form.dataset.charts.split(" ")) {
    const place = document.getElementById(id);
    if (!place) continue;
    place.dataset.query = joined(place.dataset.fixed, query);
    place.dispatchEvent(new Event("chart-asked"));
  }
  const told = form.querySelector("[data-told]");
  const chosen = form.querySelector("option:checked[title]");
  if (told && chosen) told.textContent = chosen.title;
  history.replaceState(history.state, "", addressOf(form));
}

// Boxes of one name are told together: statistic=l2,max.
function questionOf(form) {
  const found = new Map();
  for (const [name, value] of new FormData(form)) {
    if (value !== "") found.set(name, found.has(name) ? `${found.get(name)},${value}` : value);
  }
  return new URLSearchParams([...found]).toString();
}

function addressOf(form) {
  const address = new URL(location.href);
  for (const field of form.elements) if (field.name) address.searchParams.delete(field.name);
  for (const [name, value] of new FormData(form)) if (value !== "") address.searchParams.append(name, value);
  return address;
}

function joined(...parts) {
  return parts.filter(Boolean).join("&");
}

// A cell of the network leads to its tensor at its step.
function listen(event) {
  const place = event.target;
  const plot = event.detail?.plot;
  if (!plot || !place.dataset?.cells || heard.has(plot)) return;
  heard.add(plot);
  plot.on("plotly_click", ({ points }) => {
    const [row] = [points[0].pointIndex ?? points[0].pointNumber].flat();
    const rows = plot.layout.meta?.rows ?? [];
    const drawn = points[0].data.y.length;
    const name = rows[Math.floor((row * rows.length) / drawn)];
    if (name !== undefined) location.href = `${place.dataset.cells}?${new URLSearchParams({ name, step: String(Math.round(points[0].x)) })}`;
  });
}
