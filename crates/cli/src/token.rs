// SPDX-License-Identifier: Apache-2.0
//! `gabion token`: who may ask the API over the network.

use crate::args::{Cli, TokenCommand};
use crate::client;
use crate::output::{self, say};
use crate::target::TargetHost;
use anyhow::Result;
use operator::{Command, NewTokenReport, TokenReport};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `gabion token ...`.
pub fn token(cli: &Cli, command: &TokenCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    match command {
        TokenCommand::Create { name, role, expires_in } => {
            let (name, seconds) = (name.clone(), expires_in.as_secs());
            let command = Command::TokenCreate { name, role: *role, seconds };
            let made: NewTokenReport = client::ask(&door, &command)?;
            output::print(cli.output, &made, |made| {
                let (name, role) = (&made.name, made.role.name());
                say!("token '{name}' for a {role}, until {}:", day(made.expires));
                say!("{}", made.token);
                say!("it is shown this once; 'gabion token delete {name}' ends it");
            })
        }
        TokenCommand::List => {
            let tokens: Vec<TokenReport> = client::ask(&door, &Command::TokenList)?;
            output::print(cli.output, &tokens, |tokens| {
                if tokens.is_empty() {
                    say!("there are none: nobody gets into the API over the network");
                    return;
                }
                output::table(&["token", "role", "made", "opens until"], rows(tokens));
            })
        }
        TokenCommand::Delete { name } => {
            let gone: TokenReport =
                client::ask(&door, &Command::TokenDelete { name: name.clone() })?;
            output::print(cli.output, &gone, |gone| {
                say!("token '{}' opens nothing any more", gone.name);
            })
        }
    }
}

fn rows(tokens: &[TokenReport]) -> Vec<Vec<String>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let row = |token: &TokenReport| {
        let until = match token.expires > now {
            true => day(token.expires),
            false => format!("{} (it opens nothing)", day(token.expires)),
        };
        vec![token.name.clone(), token.role.name().to_owned(), day(token.created), until]
    };
    tokens.iter().map(row).collect()
}

/// A time to the second, UTC.
pub fn day(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}
