// SPDX-License-Identifier: Apache-2.0
//! `gabion user`: people who sign in.

use crate::Fail;
use crate::args::{Cli, UserCommand};
use crate::client::{self, ApiDoor};
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::token::day;
use anyhow::{Context, Result};
use operator::{Command, NewCodeReport, UserReport};
use std::io::{BufRead, IsTerminal};

/// `gabion user ...`.
pub fn user(cli: &Cli, command: &UserCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    match command {
        UserCommand::Create { name, role, code_for } => {
            let (name, seconds) = (name.clone(), code_for.as_secs());
            show_code(cli, &door, &Command::UserCreate { name, role: *role, seconds })
        }
        UserCommand::Code { name, code_for } => {
            let (name, seconds) = (name.clone(), code_for.as_secs());
            show_code(cli, &door, &Command::UserCode { name, seconds })
        }
        UserCommand::List => {
            let users: Vec<UserReport> = client::ask(&door, &Command::UserList)?;
            output::print(cli.output, &users, |users| {
                if users.is_empty() {
                    say!("there are none: 'gabion user create NAME --role administrator'");
                    return;
                }
                let heading = ["user", "role", "made", "password", "code until", "sessions"];
                output::table(&heading, users.iter().map(row).collect());
            })
        }
        UserCommand::Role { name, role } => {
            let command = Command::UserRole { name: name.clone(), role: *role };
            let user: UserReport = client::ask(&door, &command)?;
            output::print(cli.output, &user, |user| {
                say!("user '{}' is a {} now", user.name, user.role.name());
            })
        }
        UserCommand::Password { name } => {
            let command = Command::UserPassword { name: name.clone(), password: read_password()? };
            let user: UserReport = client::ask(&door, &command)?;
            output::print(cli.output, &user, |user| {
                say!("user '{}' has that password now; its sessions have ended", user.name);
            })
        }
        UserCommand::Delete { name } => {
            let command = Command::UserDelete { name: name.clone() };
            let gone: UserReport = client::ask(&door, &command)?;
            output::print(cli.output, &gone, |gone| {
                say!("user '{}' is gone, and signed out", gone.name);
            })
        }
    }
}

fn show_code(cli: &Cli, door: &ApiDoor, command: &Command) -> Result<()> {
    let made: NewCodeReport = client::ask(door, command)?;
    output::print(cli.output, &made, |made| {
        let until = made.code_expires.map(day).unwrap_or_default();
        say!("user '{}', a {}, signs in once with this code, until {until}:", made.name, {
            made.role.name()
        });
        say!("{}", made.code);
        say!("it is shown this once; 'gabion user code {}' makes another", made.name);
    })
}

fn row(user: &UserReport) -> Vec<String> {
    vec![
        user.name.clone(),
        user.role.name().to_owned(),
        day(user.created),
        if user.has_password { "yes" } else { "none yet" }.to_owned(),
        user.code_expires.map(day).unwrap_or_else(|| "-".to_owned()),
        user.sessions.to_string(),
    ]
}

/// A password from the terminal, twice and unseen, or the first line of a pipe.
fn read_password() -> Result<String> {
    if std::io::stdin().is_terminal() {
        let ask = |what| rpassword::prompt_password(what).context("cannot read the password");
        let password = ask("password: ")?;
        return match password == ask("again: ")? {
            true => Ok(password),
            false => Err(Fail::usage("those are two passwords: nothing was changed").into()),
        };
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("cannot read the password")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
