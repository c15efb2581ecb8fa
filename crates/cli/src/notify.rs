// SPDX-License-Identifier: Apache-2.0
//! `gabion notify`: who is told of what health checks find.

use crate::Fail;
use crate::args::{Cli, NotifyAddArgs, NotifyCommand};
use crate::client;
use crate::output::{self, say};
use crate::target::TargetHost;
use crate::token::day;
use anyhow::Result;
use operator::{Command, NotifyTestReport, ReceiverReport, ReceiverWay, SecretText};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file with a secret or with certificates, at most.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// `gabion notify ...`.
pub fn notify(cli: &Cli, command: &NotifyCommand) -> Result<()> {
    let door = TargetHost::find(cli)?.door();
    match command {
        NotifyCommand::Add(add) => {
            let made: ReceiverReport = client::ask(&door, &add_command(add)?)?;
            output::print(cli.output, &made, |made| {
                say!("{} is told of what is {} or worse", made.name, made.from_state.name());
                if made.is_in_clear {
                    say!("others on the way can read what it is told");
                }
                say!("see whether it arrives: gabion notify test {}", made.name);
            })
        }
        NotifyCommand::List => {
            let all: Vec<ReceiverReport> = client::ask(&door, &Command::NotifyList)?;
            output::print(cli.output, &all, |all| {
                if all.is_empty() {
                    say!("nobody is told: 'gabion notify add --help' shows how");
                    return;
                }
                let heading = ["receiver", "kind", "to", "from", "secret", "told last", "state"];
                output::table(&heading, all.iter().map(row).collect());
            })
        }
        NotifyCommand::Show { name } => {
            let one: ReceiverReport =
                client::ask(&door, &Command::NotifyShow { name: name.clone() })?;
            output::print(cli.output, &one, show)
        }
        NotifyCommand::Delete { name } => {
            let gone: ReceiverReport =
                client::ask(&door, &Command::NotifyDelete { name: name.clone() })?;
            output::print(cli.output, &gone, |gone| say!("{} is told nothing more", gone.name))
        }
        NotifyCommand::Test { name } => {
            let sent: NotifyTestReport =
                client::ask(&door, &Command::NotifyTest { name: name.clone() })?;
            output::print(cli.output, &sent, |sent| {
                say!("{} was told: {}", sent.name, sent.answer);
                say!("the message's id is {}", sent.id);
            })
        }
    }
}

fn add_command(add: &NotifyAddArgs) -> Result<Command> {
    Ok(Command::NotifyAdd {
        name: add.name.clone(),
        way: way(add)?,
        from_state: Some(add.from_state),
        groups: add.groups.clone(),
        remind_seconds: add.remind.0.map(|time| time.as_secs()),
    })
}

fn way(add: &NotifyAddArgs) -> Result<ReceiverWay> {
    let ca = add.ca_file.as_deref().map(text_of).transpose()?;
    if let Some(url) = &add.webhook {
        let secret = add.secret_file.as_deref().map(secret_of).transpose()?;
        return Ok(ReceiverWay::Webhook { url: SecretText(url.clone()), secret, ca });
    }
    if let (Some(address), Some(smtp)) = (&add.email, &add.smtp) {
        let domain = address.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
        return Ok(ReceiverWay::Email {
            address: address.clone(),
            from: add.from.clone().unwrap_or_else(|| format!("gabion@{domain}")),
            smtp: smtp.clone(),
            tls: add.tls,
            user: add.user.clone(),
            password: add.password_file.as_deref().map(secret_of).transpose()?,
            ca,
        });
    }
    Ok(ReceiverWay::Syslog { address: add.syslog.clone().flatten(), tcp: add.tcp })
}

fn text_of(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            let place = path.display();
            Err(Fail::failed(format!("cannot read '{place}': {error}")).into())
        }
    }
}

/// The first line of a file.
fn secret_of(path: &Path) -> Result<SecretText> {
    let text = text_of(path)?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        let place = path.display();
        return Err(Fail::usage(format!("the first line of '{place}' is empty: no secret")).into());
    }
    Ok(SecretText(line.to_owned()))
}

fn state(one: &ReceiverReport) -> String {
    match (&one.trouble, one.open) {
        (Some(_), _) => "NOT told ('gabion notify show')".to_owned(),
        (None, 0) => "nothing is wrong".to_owned(),
        (None, open) => format!("knows of {open}"),
    }
}

fn row(one: &ReceiverReport) -> Vec<String> {
    vec![
        one.name.clone(),
        one.kind.clone(),
        one.target.clone(),
        one.from_state.name().to_owned(),
        if one.has_secret { "set" } else { "-" }.to_owned(),
        one.told_at.map_or_else(|| "never".to_owned(), day),
        state(one),
    ]
}

fn show(one: &ReceiverReport) {
    let groups = match one.groups.is_empty() {
        true => "all".to_owned(),
        false => one.groups.join(", "),
    };
    let remind = one.remind_seconds.map_or_else(
        || "never".to_owned(),
        |seconds| humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string(),
    );
    say!("{} ({})", one.name, one.kind);
    say!("  to               {}", one.target);
    say!("  secret           {}", if one.has_secret { "set" } else { "none" });
    say!("  read on the way  {}", if one.is_in_clear { "others can" } else { "by nobody else" });
    say!("  from state       {}", one.from_state.name());
    say!("  groups           {groups}");
    say!("  reminded         {remind}");
    say!("  made             {}", day(one.created));
    say!("  told last        {}", one.told_at.map_or_else(|| "never".to_owned(), day));
    say!("  state            {}", state(one));
    if let (Some(since), Some(why)) = (one.trouble_since, &one.trouble) {
        say!("  not told since {}: {why}", day(since));
        say!("  $ gabion notify test {}", one.name);
    }
}
