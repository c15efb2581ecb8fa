// SPDX-License-Identifier: Apache-2.0
// A browser that looks at the page: what it finds wrong, and pictures of what it sees.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 60_000);

export async function open() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** A window of its own, with nothing left of others. */
export async function look(browser, { url, folder, width, scheme, language = "en-GB" }) {
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width, height: width > 600 ? 860 : 844 },
    colorScheme: scheme,
    locale: language,
    reducedMotion: "reduce",
    hasTouch: width < 600,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const seen = new Window(page, url, folder, `${width}-${scheme}`);
  return { context, page, seen };
}

class Window {
  /** Errors of the console that were not asked for. */
  errors = [];
  asked = [];

  constructor(page, url, folder, name) {
    Object.assign(this, { page, url, folder, name });
    page.on("pageerror", (error) => this.note(`${error.stack ?? error}`));
    page.on("console", (message) => {
      if (message.type() !== "error") return;
      this.note(`${message.text()} (${message.location().url})`);
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(url)) this.note(`asks elsewhere: ${request.url()}`);
    });
  }

  note(text) {
    // A release without checks of its health is asked for them once.
    if (/status of 404/.test(text) && text.includes("/api/v1/health")) return;
    if (!this.asked.some((pattern) => pattern.test(text))) this.errors.push(text);
  }

  /** Errors like this are what a step is about, until it ends. */
  async expecting(pattern, step) {
    this.asked.push(pattern);
    await step();
    this.asked.pop();
  }

  async signIn(token) {
    await this.page.goto(this.url);
    await this.page.getByLabel(/^API.Token$/i).fill(token);
    await this.page.getByRole("button", { name: /^(Sign in|Anmelden)$/ }).click();
    await this.page.locator(".touch.live").waitFor({ state: "attached" });
  }

  async go(hash) {
    await this.page.evaluate((to) => (location.hash = to), hash);
  }

  /** Looks for what keeps people out, and takes a picture. */
  async check(what) {
    const isLoaded = () => ![...document.querySelectorAll(".empty")].some((it) => /^(Loading|Wird geladen)$/.test(it.textContent));
    await this.page.waitForFunction(isLoaded);
    await this.page.evaluate(() => scrollTo(0, 0));
    await this.page.screenshot({ path: join(this.folder, `${what}-${this.name}.png`), fullPage: true });
    await this.page.evaluate(axe);
    const found = await this.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    for (const { id, help, nodes } of found.violations) {
      const where = nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary}`).join("\n    ");
      this.errors.push(`${what}: axe: ${id}: ${help}\n    ${where}`);
    }
    const overflow = await this.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (overflow > 0) this.errors.push(`${what}: ${overflow} pixels wider than the window`);
  }

  /** Throws if anything was wrong. */
  fine() {
    const { errors } = this;
    this.errors = [];
    if (errors.length > 0) throw new Error(`${this.name}:\n  ${errors.join("\n  ")}`);
  }
}
