// One chart: loads its figure, draws it under its title, and follows the shared axis.
import { extentOf } from "./axes.js";
import { applyTheme, describeFigure } from "./chart_style.js";
import { flagList, titleBar } from "./chart_frame.js";
import { isSmoothable, smoothed } from "./smoothing.js";
import { overTime } from "./step_times.js";
import { localize } from "./times.js";

const CONFIG = {
  displaylogo: false, responsive: true, doubleClick: false, showTips: false, scrollZoom: false,
  showSendToCloud: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d", "zoomIn2d", "zoomOut2d"],
};
const FEW_STEPS = 8;
const TIME_LABEL_PX = 110; // a time with milliseconds, and the gap to the next
const HEIGHT = 280;
const DEBOUNCE_MS = 150;
const MIN_REFRESH_MS = 2000;

export class Chart {
  #figure = null; // as received, to redraw with another theme
  #request = null; // abort controller of the pending request
  #isStale = true;
  #timer = 0;
  #isScheduled = false;
  #drawnAt = 0;
  #loadMs = 0;
  #scale = null; // scale that the viewer chose: "log" or "linear"; null: automatic
  #smoothing = 0; // weight of earlier values, that the viewer chose
  #along = "step"; // what lies along x: "step", or a time that the viewer chose
  #pendingRelayouts = 0; // relayouts of our own that Plotly has not reported yet

  constructor(element, axis) {
    this.element = element;
    this.axis = axis;
    this.isVisible = false;
    this.plot = null;
    element.style.minHeight = `${element.dataset.height ?? HEIGHT}px`;
    element.addEventListener("chart-query-changed", () => this.reload());
    axis?.addEventListener("range", () => this.#onRangeChange());
    axis?.addEventListener("extent", () => this.#applyRange());
  }

  // Called when the chart enters or leaves the viewport.
  setVisible(isVisible) {
    this.isVisible = isVisible;
    if (isVisible && this.#isStale) this.#load();
  }

  // Reload because the query has changed.
  reload(delayMs = 0) {
    this.#isStale = true;
    clearTimeout(this.#timer);
    this.#isScheduled = false;
    if (this.isVisible) this.#timer = setTimeout(() => this.#load(), delayMs);
  }

  // Reload because the run has changed: at a limited rate, and not while a past range is shown.
  refresh() {
    if (this.axis?.range && !this.axis.follows && this.axis.range.to < (this.axis.extent?.to ?? Infinity)) return;
    this.#isStale = true;
    if (!this.isVisible || this.#isScheduled) return;
    this.#isScheduled = true;
    const delay = this.#drawnAt + Math.max(MIN_REFRESH_MS, 5 * this.#loadMs) - performance.now();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.#isScheduled = false; this.#load(); }, Math.max(0, delay));
  }

  repaint() {
    if (this.#figure) this.#draw();
  }

  // The plot area in px; null: not drawn.
  area() {
    const size = this.plot?._fullLayout?._size;
    return size ? { left: size.l, top: this.plot.offsetTop + size.t, width: size.w, height: size.h } : null;
  }

  #url() {
    const data = this.element.dataset;
    const run = encodeURIComponent(data.run ?? document.body.dataset.run ?? "");
    const url = `/runs/${run}/charts/${data.chart}.json`;
    const query = new URLSearchParams(data.query ?? "");
    query.set("points", data.points ?? Math.max(100, Math.min(2000, Math.round(this.element.clientWidth || 600))));
    for (const [key, value] of Object.entries(this.axis?.query() ?? {})) query.set(key, value);
    if (this.#scale) query.set("is_log", this.#scale === "log" ? "1" : "0");
    return `${url}?${query}`;
  }

  async #load() {
    this.#request?.abort();
    const request = (this.#request = new AbortController());
    const startedAt = performance.now();
    this.#isStale = false;
    this.element.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(this.#url(), { signal: request.signal, headers: { Accept: "application/json" } });
      const figure = response.ok ? await response.json() : null;
      if (figure) await this.#show(figure);
      else this.#showMessage((await response.text()).trim() || `failed to load the chart (${response.status})`, "alert");
      this.#loadMs = performance.now() - startedAt;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#isStale = true;
      if (!this.plot) this.#showMessage("the dashboard does not respond; retrying when it is available", "alert");
    } finally {
      if (this.#request === request) {
        this.#request = null;
        this.#drawnAt = performance.now();
        this.element.removeAttribute("aria-busy");
      }
    }
  }

  async #show(figure) {
    const empty = figure.layout?.meta?.empty;
    if (empty !== undefined) return this.#showMessage(empty, "note", figure.layout?.title?.text);
    if (this.axis) this.axis.grow(extentOf(figure, this.axis));
    localize(figure);
    this.#figure = figure;
    this.element.setAttribute("aria-label", describeFigure(figure));
    await this.#draw();
  }

  async #draw() {
    const figure = structuredClone(this.#figure);
    const layout = figure.layout;
    layout.height = Number(this.element.dataset.height ?? layout.height ?? HEIGHT);
    layout.autosize = true;
    layout.margin = { ...layout.margin, t: layout.annotations?.some((note) => note.yref === "paper" && note.y === 1) ? 26 : 10 };
    delete layout.title;
    applyTheme(layout);
    const traces = smoothed(figure.data, this.#smoothing);
    if (this.#isOverTime) overTime(traces, layout, this.#along);
    else if (this.axis) this.#applyAxis(layout);
    if (this.element.dataset.left) align(layout, Number(this.element.dataset.left));
    const isNew = !this.plot;
    if (isNew) this.#makePlot();
    this.element.style.minHeight = `${layout.height}px`;
    this.#frame();
    await Plotly.react(this.plot, traces, layout, CONFIG);
    if (isNew) this.#connectPlot();
    this.#dispatchDrawn();
  }

  // The title, with the choices of scale and smoothing, above the plot, and the list of flags below it.
  #frame() {
    const { title, meta } = this.#figure.layout;
    const isSliding = document.activeElement?.matches(".smoothing input") && this.element.contains(document.activeElement);
    for (const part of this.element.querySelectorAll(`:scope > ${isSliding ? "" : ".chart-head, :scope > "}.flags`)) part.remove();
    if (!isSliding) {
      this.plot.before(titleBar(unescapeHtml(title?.text ?? ""), {
        scale: meta?.scale,
        onScale: (scale) => { this.#scale = scale; this.reload(); },
        smoothing: isSmoothable(this.#figure) ? this.#smoothing : undefined,
        onSmoothing: (weight) => { this.#smoothing = weight; this.repaint(); },
        along: meta?.moments && this.#along,
        onAlong: (along) => { this.#along = along; this.repaint(); },
      }));
    }
    if (meta?.flags && this.element.dataset.flags !== "none") this.plot.after(flagList(meta.flags.map(({ text }) => unescapeHtml(text)), meta.more_flags));
  }

  // Over time, a chart leaves the axis that it shares with the others, but not the range of steps that it shows.
  get #isOverTime() {
    return this.#along !== "step" && !!this.#figure?.layout.meta?.moments;
  }

  // Charts on a shared axis pan and zoom horizontally only.
  #applyAxis(layout) {
    for (const key of this.axis.keys(layout)) {
      if (this.axis.visible) Object.assign(layout[key], { range: this.axis.toPlot(this.axis.visible), autorange: false });
      if (this.axis.length > FEW_STEPS) delete layout[key].dtick; // it was chosen for the data of this chart alone
      if (this.axis.isTime) Object.assign(layout[key], { tickangle: 0, nticks: Math.max(2, Math.floor(this.element.clientWidth / TIME_LABEL_PX)) });
    }
    for (const key of Object.keys(layout)) if (/^yaxis\d*$/.test(key)) layout[key].fixedrange = true;
    layout.dragmode = "zoom";
  }

  #makePlot() {
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.element.setAttribute("role", "figure");
    if (this.axis) this.element.tabIndex = 0;
    this.element.replaceChildren(this.plot);
  }

  #connectPlot() {
    if (!this.axis) return;
    this.plot.on("plotly_relayout", (change) => this.#onRelayout(change));
    this.plot.on("plotly_doubleclick", () => this.axis.reset());
  }

  #onRelayout(change) {
    const key = Object.keys(change).find((key) => /^xaxis\d*\.range(\[0\])?$/.test(key));
    if (!key || this.#pendingRelayouts || this.#isOverTime) return;
    const name = key.split(".")[0];
    const range = change[`${name}.range`] ?? [change[`${name}.range[0]`], change[`${name}.range[1]`]];
    this.axis.set(this.axis.fromPlot(range));
  }

  // The range changed: apply it at once to the present data, then load finer data.
  #onRangeChange() {
    this.#applyRange();
    this.reload(DEBOUNCE_MS);
  }

  #applyRange() {
    if (!this.plot?._fullLayout || !this.axis.visible || !this.#figure || this.#isOverTime) return;
    const range = this.axis.toPlot(this.axis.visible);
    const change = {};
    for (const key of this.axis.keys(this.#figure.layout)) {
      change[`${key}.range`] = range;
      if (this.axis.length > FEW_STEPS) change[`${key}.dtick`] = null; // other charts have grown the axis since
    }
    if (!Object.keys(change).length) return;
    this.#pendingRelayouts += 1;
    Plotly.relayout(this.plot, change).finally(() => { this.#pendingRelayouts -= 1; this.#dispatchDrawn(); });
  }

  // Show a message instead of a plot.
  #showMessage(text, role, title) {
    if (this.plot) Plotly.purge(this.plot);
    this.plot = this.#figure = null;
    const message = document.createElement("p");
    message.className = role === "alert" ? "no-data failed" : "no-data";
    message.textContent = unescapeHtml(text);
    const parts = [message];
    if (title) parts.unshift(titleBar(unescapeHtml(title)));
    this.element.removeAttribute("tabindex");
    this.element.removeAttribute("aria-label");
    this.element.style.minHeight = "0";
    this.element.setAttribute("role", "group");
    this.element.replaceChildren(...parts);
    this.#dispatchDrawn();
  }

  #dispatchDrawn() {
    this.element.dispatchEvent(new CustomEvent("chart-drawn", { bubbles: true, detail: { plot: this.plot } }));
  }
}

// Align the left edges of stacked charts.
function align(layout, left) {
  layout.margin = { ...layout.margin, l: left };
  for (const key of Object.keys(layout)) if (/^yaxis\d*$/.test(key)) layout[key].automargin = false;
}

// Figure text is escaped for Plotly, which interprets some markup.
function unescapeHtml(text) {
  return new DOMParser().parseFromString(text, "text/html").body.textContent;
}
