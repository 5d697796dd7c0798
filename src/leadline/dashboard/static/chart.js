// One chart: asks for its figure, draws it, and keeps to the axis that it shares with others.
import { extentOf } from "./axes.js";
import { essence, paint } from "./looks.js";
import { localize } from "./times.js";

const CONFIG = {
  displaylogo: false, responsive: true, doubleClick: false, showTips: false, scrollZoom: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d", "zoomIn2d", "zoomOut2d"],
};
const HEIGHT = 280;
const CALM_MS = 150;
const LEAST_LIVE_MS = 2000;

export class Chart {
  #figure = null; // as it came, for other colours
  #under = null; // the request that is under way
  #isStale = true;
  #timer = 0;
  #waits = false;
  #drawnAt = 0;
  #tookMs = 0;
  #moving = 0; // moves of our own that Plotly has not told of yet

  constructor(place, axis) {
    this.place = place;
    this.axis = axis;
    this.isSeen = false;
    this.plot = null;
    place.style.minHeight = `${place.dataset.height ?? HEIGHT}px`;
    place.addEventListener("chart-asked", () => this.renew());
    axis?.addEventListener("range", () => this.#follow());
    axis?.addEventListener("extent", () => this.#keepRange());
  }

  // It came into sight, or left it.
  see(isSeen) {
    this.isSeen = isSeen;
    if (isSeen && this.#isStale) this.#ask();
  }

  // What it asks has changed.
  renew(calm = 0) {
    this.#isStale = true;
    clearTimeout(this.#timer);
    this.#waits = false;
    if (this.isSeen) this.#timer = setTimeout(() => this.#ask(), calm);
  }

  // The run has grown: not more often than it can be drawn, and not where the past is looked at.
  grow() {
    if (this.axis?.range && !this.axis.follows && this.axis.range.to < (this.axis.extent?.to ?? Infinity)) return;
    this.#isStale = true;
    if (!this.isSeen || this.#waits) return;
    this.#waits = true;
    const due = this.#drawnAt + Math.max(LEAST_LIVE_MS, 5 * this.#tookMs) - performance.now();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.#waits = false; this.#ask(); }, Math.max(0, due));
  }

  repaint() {
    if (this.#figure) this.#draw();
  }

  // The place of an axis' value from the left, in px of the plot; null: it is not drawn.
  area() {
    const size = this.plot?._fullLayout?._size;
    return size ? { left: size.l, top: size.t, width: size.w, height: size.h } : null;
  }

  #address() {
    const data = this.place.dataset;
    const run = encodeURIComponent(data.run ?? document.body.dataset.run ?? "");
    const address = data.src ?? `/runs/${run}/charts/${data.chart}.json`;
    const query = new URLSearchParams(data.query ?? "");
    query.set("points", data.points ?? Math.max(100, Math.min(2000, Math.round(this.place.clientWidth || 600))));
    for (const [key, value] of Object.entries(this.axis?.question() ?? {})) query.set(key, value);
    return `${address}${address.includes("?") ? "&" : "?"}${query}`;
  }

  async #ask() {
    this.#under?.abort();
    const under = (this.#under = new AbortController());
    const began = performance.now();
    this.#isStale = false;
    this.place.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(this.#address(), { signal: under.signal, headers: { Accept: "application/json" } });
      const figure = answer.ok ? await answer.json() : null;
      if (figure) await this.#take(figure);
      else this.#say((await answer.text()).trim() || `the chart cannot be drawn (${answer.status})`, "alert");
      this.#tookMs = performance.now() - began;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#isStale = true;
      if (!this.plot) this.#say("the dashboard does not answer; it is asked again when the page hears of it", "alert");
    } finally {
      if (this.#under === under) {
        this.#under = null;
        this.#drawnAt = performance.now();
        this.place.removeAttribute("aria-busy");
      }
    }
  }

  async #take(figure) {
    const empty = figure.layout?.meta?.empty;
    if (empty !== undefined) return this.#say(empty, "note", figure.layout?.title?.text);
    if (this.axis) this.axis.grow(extentOf(figure, this.axis));
    localize(figure);
    this.#figure = figure;
    this.place.setAttribute("aria-label", essence(figure));
    await this.#draw();
  }

  async #draw() {
    const figure = structuredClone(this.#figure);
    const layout = figure.layout;
    const height = Number(this.place.dataset.height ?? layout.height ?? HEIGHT);
    layout.height = height;
    layout.autosize = true;
    paint(layout);
    if (this.axis) this.#bind(layout);
    if (this.place.dataset.left) align(layout, Number(this.place.dataset.left));
    const isNew = !this.plot;
    if (isNew) this.#makePlot();
    this.place.style.minHeight = `${height}px`;
    await Plotly.react(this.plot, figure.data, layout, CONFIG);
    if (isNew) this.#listen();
    this.#tell();
  }

  // Shared axes move sideways only, and all alike.
  #bind(layout) {
    for (const key of this.axis.keys(layout)) {
      if (this.axis.shown) Object.assign(layout[key], { range: this.axis.toPlot(this.axis.shown), autorange: false });
    }
    for (const key of Object.keys(layout)) if (/^yaxis\d*$/.test(key)) layout[key].fixedrange = true;
    layout.dragmode = "zoom";
  }

  #makePlot() {
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.place.setAttribute("role", "figure");
    if (this.axis) this.place.tabIndex = 0;
    this.place.replaceChildren(this.plot);
  }

  #listen() {
    if (!this.axis) return;
    this.plot.on("plotly_relayout", (change) => this.#heard(change));
    this.plot.on("plotly_doubleclick", () => this.axis.reset());
  }

  #heard(change) {
    const key = Object.keys(change).find((each) => /^xaxis\d*\.range(\[0\])?$/.test(each));
    if (!key || this.#moving) return;
    const name = key.split(".")[0];
    const range = change[`${name}.range`] ?? [change[`${name}.range[0]`], change[`${name}.range[1]`]];
    this.axis.set(this.axis.fromPlot(range));
  }

  // Another chart moved: move at once with what there is, then ask for what is finer.
  #follow() {
    this.#keepRange();
    this.renew(CALM_MS);
  }

  #keepRange() {
    if (!this.plot?._fullLayout || !this.axis.shown || !this.#figure) return;
    const range = this.axis.toPlot(this.axis.shown);
    const change = {};
    for (const key of this.axis.keys(this.#figure.layout)) change[`${key}.range`] = range;
    if (!Object.keys(change).length) return;
    this.#moving += 1;
    Plotly.relayout(this.plot, change).finally(() => { this.#moving -= 1; this.#tell(); });
  }

  // Why there is nothing to see, in words.
  #say(words, role, title) {
    if (this.plot) Plotly.purge(this.plot);
    this.plot = this.#figure = null;
    const said = document.createElement("p");
    said.className = role === "alert" ? "nothing failed" : "nothing";
    said.textContent = decoded(words);
    const parts = [said];
    if (title) {
      const head = document.createElement("h3");
      head.textContent = decoded(title);
      parts.unshift(head);
    }
    this.place.removeAttribute("tabindex");
    this.place.removeAttribute("aria-label");
    this.place.style.minHeight = "0";
    this.place.setAttribute("role", "group");
    this.place.replaceChildren(...parts);
    this.#tell();
  }

  #tell() {
    this.place.dispatchEvent(new CustomEvent("chart-drawn", { bubbles: true, detail: { plot: this.plot } }));
  }
}

// Charts that stand one above the other begin at the same place.
function align(layout, left) {
  layout.margin = { ...layout.margin, l: left };
  for (const key of Object.keys(layout)) if (/^yaxis\d*$/.test(key)) layout[key].automargin = false;
}

// Figures hold text that was made safe for Plotly, which reads a little markup.
function decoded(text) {
  return new DOMParser().parseFromString(text, "text/html").body.textContent;
}
