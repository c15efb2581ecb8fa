// SPDX-License-Identifier: Apache-2.0
// Server-sent events (HTML standard, section 9.2), read from a stream: an EventSource sends no
// token.

export type ServerEvent = { id: string | null; event: string; data: string };

/** Makes events of the pieces of a stream, wherever it was cut. */
export class EventParser {
  private rest = "";
  private id: string | null = null;
  private event = "";
  private data: string[] = [];

  feed(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    this.rest += text;
    for (;;) {
      const end = this.rest.search(/\r\n|\n|\r/);
      // A CR at the end may be a half of a CRLF.
      if (end < 0 || (this.rest[end] === "\r" && end === this.rest.length - 1)) return events;
      const length = this.rest.startsWith("\r\n", end) ? 2 : 1;
      const line = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + length);
      const event = this.line(line);
      if (event) events.push(event);
    }
  }

  private line(line: string): ServerEvent | null {
    if (line === "") {
      const { event, data } = this;
      this.event = "";
      this.data = [];
      if (data.length === 0) return null;
      return { id: this.id, event: event || "message", data: data.join("\n") };
    }
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.event = value;
    else if (name === "data") this.data.push(value);
    else if (name === "id" && !value.includes("\0")) this.id = value;
    return null;
  }
}
