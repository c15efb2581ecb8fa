// SPDX-License-Identifier: Apache-2.0
// A value that components follow.
import { useEffect, useReducer, useRef } from "preact/hooks";

export type Store<T> = {
  get(): T;
  set(value: T): void;
  update(change: (value: T) => T): void;
  follow(listener: () => void): () => void;
};

export function createStore<T>(value: T): Store<T> {
  const listeners = new Set<() => void>();
  const store: Store<T> = {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    update: (change) => store.set(change(value)),
    follow(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return store;
}

/** What a component sees of a store; it is drawn anew when that changes. */
export function useStore<T, S>(store: Store<T>, see: (value: T) => S): S {
  const [, redraw] = useReducer((count: number, _: null) => count + 1, 0);
  const seen = useRef<S>(see(store.get()));
  const look = useRef(see);
  look.current = see;
  seen.current = see(store.get());
  useEffect(() => {
    const check = () => {
      if (!Object.is(look.current(store.get()), seen.current)) redraw(null);
    };
    check();
    return store.follow(check);
  }, [store]);
  return seen.current;
}
