"use strict";
for (const input of document.querySelectorAll("input[data-table]")) {
  const rows = document.getElementById(input.dataset.table).tBodies[0].rows;
  const said = input.closest("p").querySelector("output");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    said.textContent = wanted && `${[...rows].filter((row) => !row.hidden).length} of ${rows.length}`;
  });
}
for (const table of document.querySelectorAll("table.sorted")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : column > 0; // names from A on, the largest numbers first
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].textContent;
      const number = (row) => Number(value(row).replaceAll(",", ""));
      const compare = column ? (a, b) => number(b) - number(a) : (a, b) => value(b).localeCompare(value(a));
      const rows = [...table.tBodies[0].rows].sort(compare);
      table.tBodies[0].append(...(down ? rows : rows.reverse()));
    });
  });
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.firstChild.data = "Copied";
    } catch {
      button.firstChild.data = "Selected";
    }
  });
}
