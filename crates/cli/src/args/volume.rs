// SPDX-License-Identifier: Apache-2.0
//! `gabion volume`: its commands and flags.

use crate::door::{connections, writers};
use crate::labels::{Label, LabelChange, label, label_change, told};
use crate::pick::VolumeChoice;
use base::parse_size;
use clap::{ArgGroup, Args, Subcommand};
use host::{Connections, Writers};
use operator::NewVolume;

/// What 'gabion volume change' changes beside the reserve.
const CHANGES: [&str; 6] = ["connections", "ftt", "read_cache", "writers", "on", "anywhere"];

#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume
    #[command(after_help = "Examples:
  gabion volume create web --size 20GiB
  gabion volume create db --size 50GiB --reserve 100
  gabion volume create scratch --size 100GiB --ftt 0
  gabion volume create scratch --size 100GiB --ftt 0 --on host2   all of it there, and nowhere else
  gabion volume create db --size 50GiB --read-cache 20   10 GiB of it stay in hybrid groups' cache
  gabion volume create disk --size 20GiB --connections exclusive
  gabion volume create gfs --size 20GiB --writers any   for a file system of several machines
  gabion volume create db --size 50GiB --stripe-width 4   its load is spread over more devices
  gabion volume create db --size 50GiB --policy gold
  gabion volume create db --size 50GiB --label env=prod --label tier=db
  gabion volume create db --size 50GiB --ftt 2 --force   with the hosts that there are")]
    Create(Box<NewVolumeArgs>),
    /// List the volumes
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  gabion volume list
  gabion volume list --health not-green --sort health
  gabion volume list --host host2 --sort size
  gabion volume list --name 'web-*' --output json
  gabion volume list --label env=prod --label tier --labels
  gabion volume list --deleted             what can be brought back"
    )]
    List(VolumeChoice),
    /// Show one volume: health, components, NBD URIs
    #[command(after_help = "Examples:
  gabion volume show web
  gabion volume show archive --all         each component of a volume of many objects")]
    Show {
        /// Its name
        name: String,
        /// Show each component, even where there are many
        #[arg(long)]
        all: bool,
    },
    /// Show why each copy of a volume is where it is, and where another one would go
    #[command(after_help = "Examples:
  gabion volume explain db
  gabion volume explain db --output json
Hosts that fail together: gabion domain list")]
    Explain {
        /// Its name
        name: String,
    },
    /// Change how many failures a volume tolerates, how much space or read cache is kept for it,
    /// where it is kept, or who may use it and write to it, while it is in use
    #[command(after_help = "Examples:
  gabion volume change db --ftt 2          one copy more is made; see how far with 'volume show'
  gabion volume change db --reserve 100
  gabion volume change db --reserve 0      other volumes may have the space again
  gabion volume change db --read-cache 20  that part stays in the cache of hybrid groups
  gabion volume change db --connections exclusive   for clients that connect from now on
  gabion volume change db --writers one    clients of one host write to it at a time
  gabion volume change scratch --on host2  all of it moves there, and stays; it has one copy
  gabion volume change scratch --anywhere  wherever there is room
More is refused where a host has no room for it, and then nothing is changed. A copy whose host is
down takes it when it returns. Run it again after an interruption. A volume that follows a policy
follows none once its failures to tolerate, its reserve or its read cache were changed here.")]
    Change {
        /// Its name
        name: String,
        /// Part of the size that is kept for it on each of its hosts, 0 to 100
        #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100))]
        #[arg(value_name = "PERCENT")]
        #[arg(required_unless_present_any = CHANGES)]
        reserve: Option<u8>,
        /// Part of the size for which the read cache of hybrid disk groups is kept, 0 to 100
        #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100))]
        #[arg(value_name = "PERCENT")]
        read_cache: Option<u8>,
        /// Failures it tolerates: 0 (one copy), 1 (two copies), 2 or 3 (four)
        #[arg(long, value_name = "N")]
        ftt: Option<u8>,
        /// Also where there is no place for so many copies yet: they are made as soon as there is
        #[arg(long, requires = "ftt")]
        force: bool,
        /// How many clients may use it at once: shared or exclusive, see 'gabion volume create -h'
        #[arg(long, value_parser = connections, value_name = "WHO")]
        connections: Option<Connections>,
        /// Hosts that it is written through at a time: one or any, see 'gabion volume create -h'
        #[arg(long, value_parser = writers, value_name = "HOSTS")]
        writers: Option<Writers>,
        /// The host that all of it is kept on; only for a volume with --ftt 0
        #[arg(long, value_name = "HOST")]
        on: Option<String>,
        /// Keep it on no certain host any more, but wherever there is room
        #[arg(long, conflicts_with = "on")]
        anywhere: bool,
    },
    /// Have a host write to a volume from now on, and wait until nothing that was sent through
    /// another one takes effect any more
    #[command(
        name = "takeover",
        after_help = "Examples:
  gabion volume takeover db --host host2   before its machine is started anew on host2
For a volume that one host writes to at a time, whose writer is cut off, or is to be shut out. In a
move of a running machine nothing of this is needed: the first write at the new place waits until
the old one has left. Clients that are shut out get errors for their writes, and may read."
    )]
    TakeOver {
        /// Its name
        name: String,
        /// The host that is to write to it
        #[arg(long, value_name = "HOST")]
        host: String,
    },
    /// Make a volume larger, while it is in use
    #[command(group(ArgGroup::new("larger").required(true).args(["size", "by"])))]
    #[command(after_help = "Examples:
  gabion volume grow db --size 40GiB       40 GiB from now on
  gabion volume grow db --by 10GiB
Clients see the new size when they connect again; those that are connected go on with the old one.
Nothing is copied, and no space is taken before it is written. A volume cannot be made smaller.")]
    Grow {
        /// Its name
        name: String,
        /// Its size from now on, for example 40GiB or 40G
        #[arg(long, value_parser = parse_size, value_name = "SIZE")]
        size: Option<u64>,
        /// How much larger it is to be
        #[arg(long, value_parser = parse_size, value_name = "SIZE")]
        by: Option<u64>,
    },
    /// Set labels of a volume and take others away, while it is in use
    #[command(after_help = "Examples:
  gabion volume label db env=prod tier=db
  gabion volume label db env=test tier-    another value, and 'tier' is taken away
A key has 1 to 63 letters, digits, '.', '_', '-' and '/', and begins and ends with a letter or
digit; a value has at most 63 of them. A volume has at most 16 labels. All is changed, or nothing.
Find volumes by them: gabion volume list --label env=prod")]
    Label {
        /// Its name
        name: String,
        /// KEY=VALUE sets a label, KEY- takes one away
        #[arg(required = true, value_name = "KEY=VALUE|KEY-", value_parser = label_change)]
        changes: Vec<LabelChange>,
    },
    /// Have a volume follow a policy, while it is in use
    #[command(after_help = "Examples:
  gabion volume set-policy db gold         it gets the rules of gold, and those that gold gets later
  gabion volume set-policy db --none       it keeps the rules that it has, as its own
The rules of gold: gabion policy show gold. How far it is: gabion volume show db")]
    SetPolicy {
        /// Its name
        name: String,
        /// The policy
        #[arg(required_unless_present = "none")]
        policy: Option<String>,
        /// Follow no policy any more
        #[arg(long, conflicts_with = "policy")]
        none: bool,
    },
    /// Move the copies of a volume that one host has to another host, while the volume is in use
    #[command(after_help = "Examples:
  gabion volume move db --from host2              to the hosts with most room
  gabion volume move db --from host2 --to host4
  gabion volume move db --stop                    copies that have not arrived stay where they are
The copy on the old host counts until the new one has everything. The old host may be down, or gone
for good. Nothing is asked of clients. See how far it is with 'gabion volume show'.")]
    Move {
        /// Its name
        name: String,
        /// The host that is to have no copy any more
        #[arg(long, value_name = "HOST", required_unless_present = "stop")]
        from: Option<String>,
        /// The host that gets it
        #[arg(long, value_name = "HOST", requires = "from")]
        to: Option<String>,
        /// End the moves of this volume that are under way
        #[arg(long, conflicts_with = "from")]
        stop: bool,
    },
    /// Have a volume go on from copies that are behind, where every whole one is lost for good
    #[command(after_help = "Examples:
  gabion volume recover db --check             what would be lost, and whose copies would count
  gabion volume recover db --accept-stale      on a terminal it asks for the name first
  gabion volume recover db --accept-stale --yes
What was written since these copies left is given up, also where clients were told that it is safe.
A file system in the volume may have to be repaired. Hosts that come back later keep their copies,
and do not serve them: 'gabion orphan list'.")]
    Recover {
        /// Its name
        name: String,
        /// Yes, older data is better than none
        #[arg(long, required_unless_present = "check")]
        accept_stale: bool,
        /// Say what would be done, and do nothing
        #[arg(long, conflicts_with = "accept_stale")]
        check: bool,
        /// Do not ask
        #[arg(long, conflicts_with = "check")]
        yes: bool,
    },
    /// Give a volume that nobody uses another name
    #[command(after_help = "Examples:
  gabion volume rename db archive
Clients find it under the new name alone.")]
    Rename {
        /// Its name
        name: String,
        /// Its name from now on: a-z, 0-9, '.' and '-', at most 63
        new: String,
    },
    /// Delete a volume; it can be brought back for a day. On a terminal it asks for the name first
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  gabion volume delete web
  gabion volume delete web --yes           in scripts: nothing is asked
  gabion volume delete web --now           its data goes at once, and with it the way back
Bring it back: gabion volume undelete web. Its space is free again after a day, or before that where
a device is full."
    )]
    Delete {
        /// Its name
        name: String,
        /// Delete its data at once: it cannot be brought back
        #[arg(long)]
        now: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Bring a deleted volume back
    #[command(after_help = "Examples:
  gabion volume undelete web
  gabion volume undelete web --name web-old    where there is another 'web' now
  gabion volume undelete 3f2a                  by its id, where several were 'web'
What can be brought back: gabion volume list --deleted")]
    Undelete {
        /// The name that it had, or its id
        volume: String,
        /// Its name from now on
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Delete a deleted volume for good; on a terminal it asks for the name first
    #[command(after_help = "Examples:
  gabion volume purge web
  gabion volume purge web --yes            in scripts: nothing is asked
What is deleted and can be brought back: gabion volume list --deleted")]
    Purge {
        /// The name that it had, or its id
        volume: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// What is asked of a new volume.
#[derive(Args, Debug)]
pub struct NewVolumeArgs {
    /// Its name: a-z, 0-9, '.' and '-', at most 63
    name: String,
    /// Its size, for example 20GiB or 20G (1G is 1024^3 bytes, 1GB 1000^3); space is taken as
    /// it is written
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    size: u64,
    /// Failures it tolerates: 0 (one copy), 1 (two copies), 2 or 3 (four)
    #[arg(long, default_value_t = 1, value_name = "N")]
    ftt: u8,
    /// Part of the size that is kept for it on each of its hosts, 0 to 100; other volumes
    /// cannot take it
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    #[arg(value_name = "PERCENT")]
    reserve: u8,
    /// Part of the size for which the read cache of hybrid disk groups is kept, 0 to 100: what
    /// others read does not push it out
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    #[arg(value_name = "PERCENT")]
    read_cache: u8,
    /// Over how many parts it is striped, 1 (not at all) to 12: they take turns, 1 MiB each,
    /// and are on different disk groups as far as there are any
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=12))]
    #[arg(value_name = "N")]
    stripe_width: u8,
    /// How many clients may use it through one host at once: shared (any number; over TCP each
    /// under a name of its own, nbd://HOST/VOLUME@NAME), or exclusive (one connection)
    #[arg(long, default_value = "shared", value_parser = connections, value_name = "WHO")]
    pub connections: Connections,
    /// Through how many hosts it is written at a time: one, that of the client that writes (the
    /// default), or any, for file systems that are made for it
    #[arg(long, value_parser = writers, value_name = "HOSTS")]
    writers: Option<Writers>,
    /// The host that all of it is kept on; only with --ftt 0, or a policy with --affinity host
    /// (without this option such a policy keeps it on the host that carries out the command)
    #[arg(long, value_name = "HOST")]
    on: Option<String>,
    /// The policy that it follows, in the place of --ftt, --reserve, --read-cache and
    /// --stripe-width
    #[arg(long, value_name = "POLICY")]
    #[arg(conflicts_with_all = ["ftt", "reserve", "read_cache", "stripe_width"])]
    policy: Option<String>,
    /// Make it with fewer copies where there is no place for all of them; the others are made
    /// as soon as there is one
    #[arg(long)]
    force: bool,
    /// A label, by which 'gabion volume list' finds it; as often as it is to have labels
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<Label>,
}

impl NewVolumeArgs {
    /// As a host is told, but for the connections.
    pub fn asked(&self) -> Result<NewVolume, String> {
        let labels = self.labels.iter().cloned().map(LabelChange::Set).collect::<Vec<_>>();
        Ok(NewVolume {
            reserve_percent: self.reserve,
            cache_percent: self.read_cache,
            stripe_width: self.stripe_width,
            policy: self.policy.clone(),
            force: self.force,
            labels: told(&labels)?.0,
            writers: self.writers,
            on: self.on.clone(),
            ..NewVolume::new(&self.name, self.size, self.ftt)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, GabionCommand};
    use clap::Parser;

    fn volume(line: &str) -> Result<VolumeCommand, String> {
        let line = format!("gabion volume {line}");
        match Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command) {
            Ok(GabionCommand::Volume(command)) => Ok(command),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_volume_is_made_with_labels() {
        let asked = |line: &str| match volume(&format!("create db --size 1G {line}"))? {
            VolumeCommand::Create(args) => args.asked(),
            other => panic!("{other:?}"),
        };
        let made = asked("--label env=prod --label tier=").expect("two labels");
        let labels = [("env", "prod"), ("tier", "")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(made.labels, labels.into());
        assert!(asked("").expect("none").labels.is_empty());
        let refused = asked("--label env").expect_err("no value");
        assert!(refused.contains("KEY=VALUE"), "{refused}");
        let refused = asked("--label env!=prod").expect_err("no key");
        assert!(refused.contains("use 1 to 63 letters"), "{refused}");
        let refused = asked("--label env=a --label env=b").expect_err("which?");
        assert_eq!(refused, "label 'env' is named twice");
    }

    #[test]
    fn labels_of_a_volume_are_changed_and_asked_for() {
        let changes = match volume("label db env=prod tier-") {
            Ok(VolumeCommand::Label { name, changes }) if name == "db" => changes,
            other => panic!("{other:?}"),
        };
        let set = LabelChange::Set(("env".to_owned(), "prod".to_owned()));
        assert_eq!(changes, [set, LabelChange::Remove("tier".to_owned())]);
        for bad in
            ["label db", "label db env", "label db env=a=b", "list --label", "list --label a-"]
        {
            assert!(volume(bad).is_err(), "{bad}");
        }
        let good = "list --label env=prod --label tier --name web-* --sort size --reverse --labels";
        assert!(matches!(volume(good), Ok(VolumeCommand::List(_))));
        for beside in ["--label env", "--labels", "--reverse", "--name a"] {
            assert!(volume(&format!("list --deleted {beside}")).is_err(), "{beside}");
        }
    }

    #[test]
    fn who_writes_is_said_in_two_words() {
        let made = |line: &str| match volume(&format!("create db --size 1G {line}"))? {
            VolumeCommand::Create(args) => args.asked().map(|asked| asked.writers),
            other => panic!("{other:?}"),
        };
        assert_eq!(made(""), Ok(None), "as the cluster's level allows");
        assert_eq!(made("--writers any"), Ok(Some(Writers::Any)));
        assert!(made("--writers two").expect_err("no such").contains("neither 'one' nor 'any'"));
        let changed = volume("change db --writers one").expect("it is said");
        let VolumeCommand::Change { writers, .. } = changed else { panic!("{changed:?}") };
        assert_eq!(writers, Some(Writers::One));
        let taken = volume("takeover db --host h2").expect("it is said");
        let VolumeCommand::TakeOver { name, host } = taken else { panic!("{taken:?}") };
        assert_eq!((name.as_str(), host.as_str()), ("db", "h2"));
        assert!(volume("takeover db").is_err(), "by whom");
    }
}
