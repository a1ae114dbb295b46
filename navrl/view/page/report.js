"use strict";
/* The page of a report. */

const REPORT = JSON.parse(element("data").textContent);

function start() {
  element("title").textContent = REPORT.title;
  element("subtitle").textContent = REPORT.subtitle;
  const badge = element("outcome");
  badge.hidden = !REPORT.badge;
  badge.textContent = REPORT.badge ?? "";
  document.querySelector("header").append(pageTools());
  new ReportView(element("report")).update(REPORT);
}

start();
