// The page works without this script, which only sorts and filters rows and refreshes the page.
"use strict";
(() => {
  const REFRESH_MS = 15000;
  const FILTER_FROM = 6;  // rows
  const sorted = {};   // column and direction by table id
  const filters = {};  // text by table id

  const rank = (cell) => {
    const text = cell.dataset.order ?? cell.textContent.trim().toLowerCase();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text === "inf" ? Infinity : text;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? (a < b ? -1 : a > b ? 1 : 0)
    : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b);

  function sort(table) {
    const how = sorted[table.id];
    if (!how) return;
    const heads = [...table.querySelectorAll("thead th")];
    const column = heads.findIndex((head) => head.textContent === how.title);
    heads.forEach((head, at) => {
      head.setAttribute("aria-sort", at !== column ? "none" : how.up ? "ascending" : "descending");
    });
    if (column < 0) return;  // the column is now empty, and left out
    const rows = [...table.tBodies[0].rows].map((row) => [rank(row.cells[column]), row]);
    // Unknown values come last in either direction.
    rows.sort((a, b) => (a[0] === Infinity) - (b[0] === Infinity) || (how.up ? 1 : -1) * compare(a[0], b[0]));
    table.tBodies[0].append(...rows.map((each) => each[1]));
  }

  function filter(table, said) {
    const wanted = (filters[table.id] ?? "").trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    said.textContent = wanted === "" ? "" : `${shown} of ${table.tBodies[0].rows.length} rows`;
  }

  function equip(table) {
    table.querySelectorAll("thead th").forEach((head) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => {
        const how = sorted[table.id];
        const title = head.textContent;
        sorted[table.id] = { title, up: how?.title === title ? !how.up : !("down" in head.dataset) };
        sort(table);
      });
      head.setAttribute("aria-sort", "none");
      head.append(button);
    });
    if (table.tBodies[0].rows.length < FILTER_FROM && !filters[table.id]) return sort(table);
    const tools = document.createElement("div");
    tools.className = "tools";
    const label = document.createElement("label");
    label.append("Filter ");
    const input = document.createElement("input");
    input.type = "search";
    input.id = `${table.id}-filter`;
    input.value = filters[table.id] ?? "";
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    input.addEventListener("input", () => { filters[table.id] = input.value; filter(table, said); });
    label.append(input);
    tools.append(label, said);
    table.closest(".scroll").before(tools);
    sort(table);
    filter(table, said);
  }

  const equipAll = () => document.querySelectorAll("table.sortable").forEach(equip);

  // A refresh preserves focus and scroll positions within tables; typing in a field postpones it.
  function keep() {
    const focused = document.activeElement;
    const table = focused?.closest?.("table");
    const heads = table ? [...table.querySelectorAll("thead button")] : [];
    const open = [...document.querySelectorAll("details")].map((each) => each.open);
    const scrolled = [...document.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    return () => {
      document.querySelectorAll("details").forEach((each, at) => { each.open = open[at] ?? each.open; });
      document.querySelectorAll(".scroll").forEach((each, at) => { each.scrollLeft = scrolled[at] ?? 0; });
      if (heads.includes(focused)) {
        document.getElementById(table.id)?.querySelectorAll("thead button")[heads.indexOf(focused)]?.focus();
      }
    };
  }

  async function refresh() {
    const answer = await fetch(location.href, { cache: "no-store", headers: { Accept: "text/html" } });
    if (!answer.ok && answer.status !== 404) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const restore = keep();
    for (const part of ["header", "main"]) {
      const now = document.querySelector(part);
      const then = fresh.querySelector(part);
      if (now && then) now.replaceChildren(...then.childNodes);
    }
    equipAll();
    restore();
  }

  function offerRefresh() {
    const place = document.getElementById("refresh");
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.id = "refresh-box";
    label.append(box, ` Refresh every ${REFRESH_MS / 1000} seconds`);
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    place.append(label, " ", said);
    setInterval(async () => {
      const typing = document.activeElement?.type === "search";
      if (!box.checked || document.hidden || typing || !getSelection().isCollapsed) return;
      try {
        await refresh();
        said.textContent = "";
      } catch {
        said.textContent = "– the exporter does not respond; this page is out of date.";
      }
    }, REFRESH_MS);
  }

  equipAll();
  offerRefresh();
})();
