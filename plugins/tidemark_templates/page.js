"use strict";
(() => {
  // Beside each time, which is UTC, the same time in the reader's zone. Without this script the page lacks nothing else.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const inZone = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short" });
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (!at.getTimezoneOffset()) continue; // the reader's zone is UTC
    const [day, clock] = inZone.format(at).split(" ");
    const local = document.createElement("span");
    local.className = "local";
    local.title = zone;
    const named = time.dataset.zone === undefined ? "" : " in " + zone;
    local.textContent = "(" + (day === time.dateTime.slice(0, 10) ? clock : day + " " + clock) + named + ")";
    (time.closest("a") ?? time).after(" ", local);
  }
  // Airflow shows the page in a frame that may not leave Airflow's own: there a link to the outside is followed by the
  // document around it.
  if (window.top === window) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[target=_top]");
    if (link === null || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const same = window.top.document.createElement("a");
    same.href = link.href;
    window.top.document.body.append(same);
    same.click();
    same.remove();
  });
})();
