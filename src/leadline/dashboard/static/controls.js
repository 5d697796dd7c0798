// The drawer of controls: fetched when it is opened; what is asked is followed until the job has answered.
import { showMoments } from "./moments.js";
import { post } from "./posting.js";

const WAIT_MS = 1000;
let drawer = null;
let opener = null;
let isReading = false;

export function startControls() {
  opener = document.querySelector("[data-open-controls]");
  if (!opener) return;
  drawer = document.getElementById("controls");
  opener.addEventListener("click", () => (drawer.open ? close() : open()));
  drawer.addEventListener("click", onClick);
  drawer.addEventListener("submit", onSubmit);
  drawer.addEventListener("input", onInput);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && drawer.open && !drawer.querySelector("dialog[open]")) close();
  });
  document.addEventListener("run-changed", () => drawer.open && readRequests());
  setInterval(() => drawer.open && drawer.querySelector('[data-status="waiting"]') && readRequests(), WAIT_MS);
}

function address(deed = "") {
  return `/runs/${encodeURIComponent(document.body.dataset.run)}/controls${deed && `/${deed}`}`;
}

async function open() {
  const fresh = await read();
  if (fresh) drawer.replaceChildren(...fresh.body.childNodes);
  else say("The controls cannot be read; is leadline ui still running?", "bad");
  showMoments(drawer);
  drawer.show();
  opener.setAttribute("aria-expanded", "true");
  drawer.querySelector("[data-close]")?.focus();
}

function close() {
  drawer.close();
  opener.setAttribute("aria-expanded", "false");
  opener.focus();
}

async function read() {
  try {
    const answer = await fetch(address(), { headers: { Accept: "text/html" } });
    if (!answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return null;
  }
}

// Only what became of requests is put in place anew: half a form that somebody fills in stays.
async function readRequests() {
  if (isReading) return;
  isReading = true;
  const fresh = await read();
  isReading = false;
  for (const part of fresh ? ["[data-requests]", '[data-live-part="interval"]'] : []) {
    const [old, made] = [drawer.querySelector(part), fresh.querySelector(part)];
    if (old && made) old.replaceChildren(...made.childNodes);
  }
  showMoments(drawer);
}

async function onSubmit(event) {
  const form = event.target.closest("form[data-posts]");
  if (!form) return;
  event.preventDefault();
  await send(form.dataset.posts, new FormData(form), form);
  form.closest("dialog:not(.drawer)")?.close();
}

async function onClick(event) {
  const hit = (selector) => event.target.closest(selector);
  if (hit("[data-close]")) close();
  else if (hit("[data-refresh]")) location.reload();
  else if (hit("[data-opens]")) document.getElementById(hit("[data-opens]").dataset.opens).showModal();
  else if (hit("[data-closes]")) hit("dialog").close();
  else if (hit("[data-downloads-report]")) await downloadReport(hit("[data-downloads-report]"));
  else if (hit("[data-posts-alone]")) await send(hit("[data-posts-alone]").dataset.postsAlone, new FormData(), hit("form"));
}

function onInput(event) {
  if (event.target.matches("[data-chooses-rule]")) {
    for (const each of drawer.querySelectorAll("[data-rule]")) {
      each.hidden = each.disabled = each.dataset.rule !== event.target.value;
    }
  }
  const warning = drawer.querySelector('[data-warns="steps"]');
  const form = warning?.closest("form");
  if (form) warning.hidden = !(Number(form.elements.steps.value) > 2 && (form.elements.detailed.checked || form.elements.dataloader.checked));
}

async function send(deed, fields, form) {
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((each) => (each.disabled = true));
  const answer = await post(address(deed), fields);
  buttons.forEach((each) => (each.disabled = false));
  say(answer.ok ? "Asked; what becomes of it stands above." : answer.error, answer.ok ? "" : "bad", form);
  await readRequests();
  if (answer.ok) drawer.querySelector("[data-requests]")?.scrollIntoView({ block: "nearest" });
}

// The report is made as the run is now, then handed out.
async function downloadReport(button) {
  const reports = `/runs/${encodeURIComponent(document.body.dataset.run)}/reports/report`;
  button.disabled = true;
  say("The report is being made …", "");
  const answer = await post(reports, {});
  button.disabled = false;
  if (!answer.ok) return say(answer.error, "bad");
  drawer.querySelector(".said")?.remove();
  const link = document.createElement("a");
  link.href = `${reports}.html?download=1`;
  link.download = "";
  link.click();
}

function say(words, kind, form = null) {
  drawer.querySelector(".said")?.remove();
  const notice = document.createElement("p");
  notice.className = `notice said ${kind}`;
  notice.setAttribute("role", kind ? "alert" : "status");
  notice.textContent = words;
  const outer = form?.closest("dialog:not(.drawer)") ? null : form;
  if (outer) outer.after(notice);
  else (drawer.querySelector(".drawer-body") ?? drawer).prepend(notice);
}
