// SPDX-License-Identifier: Apache-2.0
// A table. On a narrow screen each row becomes a block whose values have their column's name.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../texts";
import { compare } from "../core/cluster";
import { Empty } from "./basics";

export type Column<T> = {
  name: string;
  show: (item: T) => ComponentChildren;
  /** What it is sorted by; a column without it is not. */
  by?: (item: T) => string | number;
  right?: boolean;
  /** Left out on narrow screens. */
  minor?: boolean;
};

type Props<T> = {
  label: string;
  columns: Column<T>[];
  items: readonly T[];
  keyOf: (item: T) => string;
  empty: string;
};

export function Table<T>({ label, columns, items, keyOf, empty }: Props<T>) {
  const [order, setOrder] = useState<{ at: number; down: boolean } | null>(null);
  if (items.length === 0) return <Empty>{empty}</Empty>;
  const by = order && columns[order.at]?.by;
  const shown = by ? [...items].sort((one, other) => directed(by(one), by(other), order.down)) : items;
  const turn = (at: number) => setOrder({ at, down: order?.at === at ? !order.down : false });
  return (
    <div class="table">
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column, at) => {
              const sort = order?.at === at ? (order.down ? "descending" : "ascending") : "none";
              return (
                <th
                  key={column.name}
                  role="columnheader"
                  scope="col"
                  class={classes(column)}
                  {...(column.by ? { "aria-sort": sort } : {})}
                >
                  {column.by ? (
                    <button type="button" onClick={() => turn(at)} title={t("table.sort")}>
                      {column.name}
                      <span aria-hidden="true">{sort === "none" ? "" : sort === "ascending" ? " \u2191" : " \u2193"}</span>
                    </button>
                  ) : (
                    column.name
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {shown.map((item) => (
            <tr role="row" key={keyOf(item)}>
              {columns.map((column) => (
                <td role="cell" key={column.name} class={classes(column)} data-name={column.name}>
                  <div>{column.show(item)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classes<T>(column: Column<T>): string {
  return [column.right ? "right" : "", column.minor ? "minor" : ""].filter(Boolean).join(" ");
}

function directed(one: string | number, other: string | number, down: boolean): number {
  const order = typeof one === "number" && typeof other === "number" ? one - other : compare(`${one}`, `${other}`);
  return down ? -order : order;
}
