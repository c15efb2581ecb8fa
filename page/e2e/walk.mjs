// SPDX-License-Identifier: Apache-2.0
// An operator's day at the page: every page at each width and in each light, and a volume's life
// while a host dies and comes back.
// usage: node walk.mjs URL TOKENS FOLDER        TOKENS: JSON with a token of each role
// GABION: the program; GABION_DATA: the cluster's folder.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { look, open } from "./browser.mjs";
import { health } from "./health.mjs";

const [, , url, tokensFile, folder] = process.argv;
const tokens = JSON.parse(readFileSync(tokensFile, "utf8"));
const gabion = (...args) => execFileSync(process.env.GABION, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const json = (...args) => JSON.parse(gabion(...args, "--output", "json"));
const say = (text) => console.log(`  ${text}`);

const first = json("host", "list")[0].name;
const group = json("group", "list").find((one) => one.host === first);
const PAGES = {
  overview: "#/",
  hosts: "#/hosts",
  host: `#/hosts/${first}`,
  group: `#/groups/${first}/${group.id}`,
  volumes: "#/volumes",
  volume: "#/volumes/shown",
  resync: "#/resync",
  health: "#/health",
  events: "#/events",
  policies: "#/policies",
  users: "#/users",
  tokens: "#/tokens",
  audit: "#/audit",
  settings: "#/settings",
};
const h1 = (page, name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
const dialog = (page) => page.getByRole("dialog");
const press = (page, name) => dialog(page).getByRole("button", { name, exact: true }).click();

async function signInPage(browser) {
  for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
    const { context, page, seen } = await look(browser, { url, folder, width, scheme });
    await page.goto(url);
    await seen.check("sign-in");
    await page.getByLabel("API token").fill("gbn_1");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("This is no token").waitFor();
    await page.getByLabel("API token").fill(`gbn_${"0".repeat(64)}`);
    await seen.expecting(/status of 401/, async () => {
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("alert").getByText("This token opens nothing").waitFor();
    });
    seen.fine();
    await context.close();
  }
}

/** What was done over time: as curves, for each time that can be chosen, and as a table. */
async function history(page, seen) {
  for (const name of ["volume", "host", "group"]) {
    await seen.go(PAGES[name]);
    await page.getByRole("heading", { name: "Performance over time" }).waitFor();
    await page.locator(".chart canvas").first().waitFor();
  }
  await seen.go(PAGES.volume);
  for (const time of ["1 day", "1 week", "90 days"]) {
    await page.getByRole("button", { name: time, exact: true }).click();
    await page.locator(".chart canvas").first().waitFor();
  }
  await page.getByRole("button", { name: "Table", exact: true }).click();
  await page.getByRole("table", { name: "Performance over time" }).getByRole("columnheader", { name: "Latency of writes: p99.9" }).waitFor();
  await seen.check("history");
}

async function everyPage(browser, width, scheme) {
  const { context, page, seen } = await look(browser, { url, folder, width, scheme });
  await seen.signIn(tokens.administrator);
  for (const [name, hash] of Object.entries(PAGES)) {
    await seen.go(hash);
    await page.locator("h1").waitFor();
    if (name === "overview") await page.locator(".chart canvas").first().waitFor();
    await seen.check(name);
  }
  await history(page, seen);
  await seen.go(PAGES.volume);
  await page.getByRole("tab", { name: "Attach" }).click();
  await page.locator("pre", { hasText: "nbd+unix:///shown" }).waitFor();
  await seen.check("attach");
  await seen.go(PAGES.volumes);
  await page.getByRole("button", { name: "New volume" }).click();
  await dialog(page).getByText("Room on all hosts").waitFor();
  await seen.check("create");
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
  await seen.go(PAGES.hosts);
  await page.getByRole("button", { name: "Add a host" }).click();
  // A cluster on one machine takes none in: the page says why, and stays where it is.
  await seen.expecting(/status of 4/, async () => {
    await press(page, "Create");
    await dialog(page).getByRole("alert").getByText("no machine can join here").waitFor();
  });
  await seen.check("invite");
  await page.keyboard.press("Escape");
  if (width < 600) {
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("navigation").getByRole("link", { name: "Policies" }).waitFor();
    await seen.check("menu");
  }
  seen.fine();
  await context.close();
  say(`every page, ${width} pixels, ${scheme}`);
}

/** Both languages: that of the browser, and the other one by the switch. */
async function german(browser) {
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light", language: "de-DE" });
  await seen.signIn(tokens.administrator);
  for (const [name, title] of [["volumes", "Volumes"], ["health", "Zustand"], ["settings", "Einstellungen"]]) {
    await seen.go(PAGES[name]);
    await h1(page, title);
    await seen.check(`german-${name}`);
  }
  await page.getByLabel("Sprache").selectOption("en");
  await h1(page, "Settings");
  await page.reload();
  await h1(page, "Settings");
  if ((await page.locator("html").getAttribute("lang")) !== "en") throw new Error("the language is not told");
  seen.fine();
  await context.close();
  say("German and English");
}

/** By keyboard alone: to the content, to another page, into a dialog and out of it. */
async function keyboard(browser) {
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light" });
  await seen.signIn(tokens.operator);
  await page.reload();
  await h1(page, "Overview");
  await page.locator("h1:focus").waitFor();
  await page.getByRole("link", { name: "Volumes" }).first().focus();
  await page.keyboard.press("Enter");
  await h1(page, "Volumes");
  await page.locator("h1:focus").waitFor();
  await page.keyboard.press("Tab");
  await page.locator("button.first:focus", { hasText: "New volume" }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator("dialog[open] input:focus").first().waitFor();
  await page.keyboard.type("x");
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
  await page.locator("button.first:focus", { hasText: "New volume" }).waitFor();
  seen.fine();
  await context.close();
  say("by keyboard");
}

/** Nobody is offered what he may not do. */
async function viewer(browser) {
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light" });
  await seen.signIn(tokens.viewer);
  await seen.go(PAGES.volume);
  await h1(page, "shown");
  for (const name of ["Grow", "Delete", "Rename"]) {
    if ((await page.getByRole("button", { name, exact: true }).count()) > 0) throw new Error(`a viewer is offered: ${name}`);
  }
  const ways = page.getByRole("navigation");
  if ((await ways.getByRole("link", { name: "Tokens" }).count()) > 0) throw new Error("a viewer is offered tokens");
  await seen.check("viewer");
  seen.fine();
  await context.close();
  say("a viewer is offered nothing that changes");
}

async function create(page, name) {
  await page.getByRole("button", { name: "New volume" }).click();
  await dialog(page).getByLabel("Name").fill(name);
  await dialog(page).getByLabel("Size").fill("64 MiB");
  await dialog(page).getByText("Room on all hosts").waitFor();
  await press(page, "Create");
  await h1(page, name);
}

async function grow(page) {
  await page.getByRole("button", { name: "Grow", exact: true }).click();
  await dialog(page).getByLabel("New size").fill("96 MiB");
  await press(page, "Grow");
  await page.locator(".facts").getByText("96 MiB").waitFor();
}

/** A host dies: the page turns, and says down to the component what is away and why. */
async function hostDies(page, seen, name, host) {
  gabion("host", "kill", host);
  await page.locator(".top .state .chip:not(.good)").waitFor();
  await page.locator(".title + .states .chip.warn").waitFor();
  const copy = page.locator(".copy", { hasText: host }).first();
  await copy.locator(".chip.bad").first().waitFor();
  await copy.locator("summary").click();
  await copy.locator(".component .why").getByText(`${host} is down`).waitFor();
  await page.getByText("Why there, and where else").click();
  await page.locator(".why-there table").waitFor();
  await seen.check("host-away-volume");
  for (const what of ["overview", "hosts", "health"]) {
    await seen.go(PAGES[what]);
    await page.locator("h1").waitFor();
    await page.locator("#main").getByText(host).filter({ visible: true }).first().waitFor();
    await seen.check(`host-away-${what}`);
  }
  await page.getByText(`gabion host start ${host}`).first().waitFor();
  gabion("host", "start", host);
  await page.locator(".top .state .chip.good").waitFor();
  await seen.go(`#/volumes/${name}`);
  await page.locator(".copy", { hasText: host }).first().locator(".chip.good").first().waitFor();
}

async function deleteByName(page, seen, name) {
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const button = dialog(page).getByRole("button", { name: "Delete", exact: true });
  if (!(await button.isDisabled())) throw new Error("a volume is deleted without its name");
  await dialog(page).getByLabel(`Type ${name} to confirm`).fill("other");
  if (!(await button.isDisabled())) throw new Error("a volume is deleted by another name");
  await dialog(page).getByLabel(`Type ${name} to confirm`).fill(name);
  await seen.check("delete");
  await button.click();
  await h1(page, "Volumes");
  const row = page.getByRole("table", { name: "Deleted" }).getByRole("row", { name });
  await row.getByRole("button", { name: "Bring back" }).click();
  await press(page, "Bring back");
  await row.waitFor({ state: "detached" });
}

async function life(browser, width, scheme) {
  const one = await look(browser, { url, folder, width, scheme });
  const other = await look(browser, { url, folder, width: 1280, scheme });
  const name = `life-${width}`;
  await one.seen.signIn(tokens.operator);
  await other.seen.signIn(tokens.viewer);
  await other.seen.go(PAGES.volumes);
  await one.seen.go(PAGES.volumes);
  await create(one.page, name);
  // The other window hears of it, and of its end.
  const heard = other.page.getByRole("link", { name, exact: true });
  await heard.waitFor();
  await grow(one.page);
  await other.page.getByRole("row", { name }).getByText("96 MiB").waitFor();
  const host = json("volume", "show", name).components[0].host;
  await hostDies(one.page, one.seen, name, host);
  await deleteByName(one.page, one.seen, name);
  await one.seen.go("#/events");
  await one.page.locator(".events li").first().waitFor();
  await one.seen.check("events-of-a-life");
  gabion("volume", "delete", name, "--now", "--yes");
  await heard.waitFor({ state: "detached" });
  one.seen.fine();
  other.seen.fine();
  await one.context.close();
  await other.context.close();
  say(`a volume's life, ${width} pixels`);
}

/** The network goes and comes back: the page says so, and gets what it missed. */
async function touch(browser) {
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light" });
  await seen.signIn(tokens.administrator);
  await seen.go(PAGES.volumes);
  await h1(page, "Volumes");
  await seen.expecting(/ERR_INTERNET_DISCONNECTED|Failed to fetch/, async () => {
    await context.setOffline(true);
    await page.getByText("Out of touch since").waitFor();
    await seen.check("out-of-touch");
    gabion("volume", "create", "missed", "--size", "8MiB");
    await context.setOffline(false);
    await page.getByText("Out of touch since").waitFor({ state: "detached" });
  });
  await page.getByRole("link", { name: "missed", exact: true }).waitFor();
  gabion("volume", "delete", "missed", "--now", "--yes");
  await page.getByRole("link", { name: "missed", exact: true }).waitFor({ state: "detached" });
  seen.fine();
  await context.close();
  say("out of touch, and back");
}

/** Tokens are made and shown once, and who loses his is signed out. */
async function tokensEnd(browser) {
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light" });
  await seen.signIn(tokens.administrator);
  await seen.go(PAGES.tokens);
  await page.getByRole("button", { name: "New token" }).click();
  await dialog(page).getByLabel("Name").fill("made-here");
  await press(page, "Create");
  const text = await page.locator(".note.good pre").innerText();
  if (!/^gbn_[0-9a-f]{64}$/.test(text.trim())) throw new Error("no token is shown");
  const other = await look(browser, { url, folder, width: 390, scheme: "light" });
  await other.seen.signIn(text.trim());
  await other.seen.go(PAGES.volumes);
  await page.getByRole("row", { name: "made-here" }).getByRole("button", { name: "Delete" }).click();
  await dialog(page).getByLabel("Type made-here to confirm").fill("made-here");
  await press(page, "Delete");
  await page.getByRole("row", { name: "made-here" }).waitFor({ state: "detached" });
  await other.seen.expecting(/status of 401/, async () => {
    await other.seen.go(PAGES.policies);
    await other.page.getByText("You are signed out").waitFor();
  });
  other.seen.fine();
  seen.fine();
  await other.context.close();
  await context.close();
  say("tokens");
}

/** A user comes with a code, chooses a password, leaves, and comes back with it. */
async function user(browser) {
  const { code } = json("user", "create", "anna", "--role", "operator");
  const { context, page, seen } = await look(browser, { url, folder, width: 1280, scheme: "light" });
  await page.goto(url);
  await page.getByText("Code", { exact: true }).click();
  await page.getByLabel("One-time code").fill(code);
  await seen.check("sign-in-code");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("You have no password yet").waitFor();
  await page.getByRole("button", { name: "Choose a password" }).click();
  await dialog(page).getByLabel("Password", { exact: true }).fill("a long enough one");
  await dialog(page).getByLabel("Once more").fill("a long enough one");
  await seen.check("choose-password");
  await press(page, "Save");
  await page.getByText("You have no password yet").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("Password", { exact: true }).click();
  await page.getByLabel("Name").fill("anna");
  await page.getByLabel("Password").last().fill("not the right one");
  await seen.expecting(/status of 401/, async () => {
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("do not fit").waitFor();
  });
  await page.getByLabel("Password").last().fill("a long enough one");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".touch.live").waitFor({ state: "attached" });
  await page.getByText("anna", { exact: true }).waitFor();
  seen.fine();
  await context.close();
  gabion("user", "delete", "anna");
  say("a user");
}

const browser = await open();
try {
  gabion("volume", "create", "shown", "--size", "256MiB");
  gabion("volume", "create", "striped", "--size", "64MiB", "--stripe-width", "3");
  await signInPage(browser);
  for (const width of [1280, 390]) for (const scheme of ["light", "dark"]) await everyPage(browser, width, scheme);
  await german(browser);
  await keyboard(browser);
  await viewer(browser);
  await life(browser, 1280, "light");
  await life(browser, 390, "dark");
  await touch(browser);
  await tokensEnd(browser);
  await user(browser);
  await health(browser, { url, folder, token: tokens.operator });
  say("checks of the health");
} finally {
  await browser.close();
}
