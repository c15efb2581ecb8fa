#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The compiler for crates of the workspace (RUSTC_WORKSPACE_WRAPPER), called by cargo with rustc and its arguments:
# clippy's driver takes the same ones, compiles, and says what it thinks of the code. A warning is an error.
# (In bash, for a plain sh loses variables like CARGO_BIN_EXE_gabion-chaos.)
shift
exec clippy-driver "$@" --deny warnings
