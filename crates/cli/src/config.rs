// SPDX-License-Identifier: Apache-2.0
//! The configuration file of a host: where it is, reading it, writing it.

use crate::Fail;
use anyhow::{Context, Result};
use host::HostConfig;
use std::fs;
use std::io::Write;
use std::path::Path;

/// The configuration file of a host, if no other is named.
pub const CONFIG_DEFAULT: &str = "/etc/gabion/host.toml";

/// Reads a host's configuration file.
pub fn read_config(path: &Path) -> Result<HostConfig> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration '{}'", path.display()))?;
    let config: HostConfig = toml::from_str(&text).map_err(|error| {
        // Only the message: the whole error has several lines.
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Fail::failed(format!(
            "'{}' is not a configuration: line {line}: {}",
            path.display(),
            error.message()
        ))
    })?;
    config.check().with_context(|| format!("'{}' cannot be used", path.display()))?;
    Ok(config)
}

/// Writes a host's configuration file.
pub fn write_config(path: &Path, config: &HostConfig) -> Result<()> {
    let text = toml::to_string_pretty(config)?;
    // Either the whole new file is there in the end, or the old one.
    let fresh = path.with_extension("toml.new");
    let write = || {
        let mut file = fs::File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().with_context(|| format!("cannot write '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_configuration_is_refused_in_one_line() {
        let path = std::env::temp_dir().join(format!("gabion-{}.toml", std::process::id()));
        let good = "name = 'a'\nid = 1\ncluster = 1\npeer = 'unix:/p'\nnbd = []\n\
                    control = 'unix:/c'\ndirectory = 'unix:/d'\n";
        let read = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            read_config(&path).map_err(|error| format!("{error:#}"))
        };
        assert!(read(good).is_ok());
        let bad = [
            (good.replace("id = 1", "id = 0"), "id is 0"),
            (good.replace("id = 1", "id = -1"), "line 2"),
            (format!("{good}[tuning]\nstall_ms = 0\n"), "tuning.stall_ms"),
        ];
        for (text, part) in bad {
            let error = read(&text).expect_err(part);
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
