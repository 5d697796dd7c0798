// Has a report made: that takes a few seconds, its button says so, and is not pressed twice.
import { post } from "./posting.js";

async function make(button) {
  const words = button.textContent;
  const error = document.querySelector("[data-makes-error]");
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  button.textContent = "Being made…";
  error.hidden = true;
  const answer = await post(button.dataset.makes, {});
  if (answer.ok) {
    location.assign(answer.address);
    return;
  }
  error.textContent = answer.error;
  error.hidden = false;
  button.textContent = words;
  button.disabled = false;
  button.removeAttribute("aria-busy");
}

for (const button of document.querySelectorAll("[data-makes]")) {
  button.addEventListener("click", () => make(button));
}
