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
  // A button starts a run of a DAG, by Airflow's own API and so with the reader's rights there.
  const start = async (button, told) => {
    const { dag, airflow } = button.dataset;
    const conf = JSON.parse(button.dataset.conf);
    if (button.form !== null) conf.key = new FormData(button.form).getAll("key");
    const answer = await fetch(`${airflow}/api/v2/dags/${dag}/dagRuns`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ logical_date: null, conf }),
    });
    const said = await answer.json().catch(() => ({ detail: answer.statusText })); // what stands before Airflow sends HTML
    if (answer.status === 403) throw new Error(`You may not start runs of ${dag}.`);
    if (!answer.ok) throw new Error(`Airflow refuses (${answer.status}): ${JSON.stringify(said.detail)}`);
    const run = said.dag_run_id;
    if (button.form !== null) {
      const asked = new URLSearchParams([...conf.key.map((value) => ["key", value]), ["run", run]]);
      location.assign(`?${asked}#explain`);
      return;
    }
    const link = document.createElement("a");
    link.target = "_top";
    link.href = `${airflow}/dags/${dag}/runs/${encodeURIComponent(run)}`;
    link.textContent = run;
    told.replaceChildren("Started: ", link);
    const known = await fetch(`${airflow}/api/v2/dags/${dag}`);
    if (known.ok && (await known.json()).is_paused) told.append(". The DAG is paused: unpause it, and the run begins.");
  };
  for (const button of document.querySelectorAll("button[data-dag]")) {
    const told = button.parentElement.querySelector("[role=status]");
    button.hidden = false;
    button.addEventListener("click", async () => {
      if (button.form !== null && !button.form.reportValidity()) return;
      button.disabled = true;
      told.textContent = "Starting …";
      try {
        await start(button, told);
      } catch (error) {
        told.textContent = error.message;
        button.disabled = false;
      }
    });
  }
  // What is not known yet is asked for again. (A refresh by the page's head would only go to the address's fragment.)
  if (document.querySelector("[data-again]") !== null) setTimeout(() => location.reload(), 3000);
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
