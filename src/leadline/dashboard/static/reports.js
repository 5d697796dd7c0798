// Generates a report; the button is disabled and shows progress meanwhile.
import { post } from "./post.js";

async function generate(button) {
  const label = button.textContent;
  const error = document.querySelector("[data-generates-error]");
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  button.textContent = "Generating…";
  error.hidden = true;
  const response = await post(button.dataset.generates, {});
  if (response.ok) {
    location.assign(response.address);
    return;
  }
  error.textContent = response.error;
  error.hidden = false;
  button.textContent = label;
  button.disabled = false;
  button.removeAttribute("aria-busy");
}

for (const button of document.querySelectorAll("[data-generates]")) {
  button.addEventListener("click", () => generate(button));
}
