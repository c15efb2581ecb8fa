// SPDX-License-Identifier: Apache-2.0
//! Writes the fixtures into the directory that the argument names. Run it only when a message is
//! new or the format changes: the fixtures that are there are overwritten.

#[expect(clippy::disallowed_methods, reason = "a tool for developers, not product code")]
fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args().nth(1) else {
        eprintln!("usage: fixtures DIRECTORY");
        std::process::exit(2);
    };
    for (index, (name, message)) in wire::samples::messages().into_iter().enumerate() {
        let mut frame = Vec::new();
        let version = wire::samples::version_of(name);
        wire::encode(&message, Some(version), wire::samples::id(index), &mut frame);
        frame.extend_from_slice(message.payload().map_or(&[], |payload| payload));
        std::fs::write(format!("{directory}/{name}.bin"), frame)?;
    }
    Ok(())
}
