// SPDX-License-Identifier: Apache-2.0
// The checks of the cluster's health, as the API tells them: here by answers that are made up, so
// that each state of a check is seen, and what is sent to silence one.
import { look } from "./browser.mjs";

const check = (id, state, more = {}) => ({
  id,
  group: id.split(".")[0],
  title: `The check ${id}`,
  state,
  summary: `What ${id} found`,
  evidence: [`<b>${id}</b> is only text`],
  since: "2026-11-29T12:00:00Z",
  means: "What that means.",
  mend: [`gabion ${id}`],
  silenced_until: null,
  ...more,
});
const CHECKS = [
  check("hosts.answering", "red"),
  check("hosts.clocks", "yellow"),
  check("objects.resync", "unknown"),
  check("objects.accessible", "green", { evidence: [], mend: [] }),
  check("versions.hosts", "silenced", { silenced_until: "2026-11-30T12:00:00Z" }),
];

export async function health(browser, { url, folder, token }) {
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light" });
  const sent = [];
  await page.route("**/api/v1/health**", (route) => {
    const request = route.request();
    const isLook = request.method() === "GET";
    if (!isLook) sent.push(`${request.method()} ${new URL(request.url()).pathname} ${request.postData() ?? ""}`.trim());
    return route.fulfill({ json: isLook ? { state: "red", checks: CHECKS } : null });
  });
  await seen.signIn(token);
  await seen.go("#/health");
  await page.getByText("The check hosts.answering").waitFor();
  await page.getByText("<b>hosts.answering</b> is only text").filter({ visible: true }).first().waitFor();
  await page.locator("pre", { hasText: "gabion hosts.answering" }).waitFor();
  await seen.check("health-checks");
  await page.getByRole("button", { name: "Silence" }).first().click();
  await page.getByRole("dialog").getByLabel("For").fill("2 h");
  await page.getByRole("dialog").getByLabel("Reason").fill("known");
  await page.getByRole("dialog").getByRole("button", { name: "Silence" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("The check versions.hosts").click();
  await page.getByRole("button", { name: "Tell of it again" }).click();
  await page.getByText("It is told of again").waitFor();
  const expected = [
    'PUT /api/v1/health/hosts.answering/silence {"for_seconds":7200,"reason":"known"}',
    "DELETE /api/v1/health/versions.hosts/silence",
  ];
  if (JSON.stringify(sent) !== JSON.stringify(expected)) throw new Error(`sent: ${sent.join("\n")}`);
  seen.fine();
  await context.close();
}
