// SPDX-License-Identifier: Apache-2.0
// Small drawings. Each stands beside a word, so none is read aloud.

const LINES = {
  overview: "M3 13h4l2.5-7 4 12 2.5-5h5",
  hosts: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  volumes: "M12 3c4.4 0 8 1.3 8 3s-3.6 3-8 3-8-1.3-8-3 3.6-3 8-3zM4 6v6c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12v6c0 1.7 3.6 3 8 3s8-1.3 8-3v-6",
  resync: "M4 11a8 8 0 0 1 14-4l2 2M20 4v5h-5M20 13a8 8 0 0 1-14 4l-2-2M4 20v-5h5",
  events: "M5 5h14M5 10h14M5 15h9M5 20h5",
  health: "M12 20s-8-4.6-8-10.5A4.5 4.5 0 0 1 12 7a4.5 4.5 0 0 1 8 2.5C20 15.4 12 20 12 20z",
  policies: "M6 3h9l4 4v14H6zM15 3v4h4M9 12h7M9 16h7",
  users: "M16 19a5 5 0 0 0-10 0M11 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM20 18a4 4 0 0 0-4-4.5M15.5 4.5a3.2 3.2 0 0 1 0 6",
  tokens: "M14 10a4 4 0 1 0-3.5 4L9 16H7v2H5v2h4l6-6M15.5 8.5h.01",
  audit: "M4 4h12v16H4zM8 9h4M8 13h4M16 8h4v12h-8",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  leave: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
} as const;

export type IconName = keyof typeof LINES;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={LINES[name]} />
    </svg>
  );
}
