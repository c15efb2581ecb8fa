// SPDX-License-Identifier: Apache-2.0
//! Labels of volumes as operators write them: `KEY=VALUE` is a label, `KEY-` takes one away, and
//! `KEY` alone asks for volumes that have it.

use host::{Labels, check_label_key, check_label_value};
use std::collections::BTreeSet;

/// One label: its key and its value.
pub type Label = (String, String);

/// What becomes of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelChange {
    /// The volume has it from now on.
    Set(Label),
    /// The volume has none of this key any more.
    Remove(String),
}

/// Which volumes are asked for: those with a label of this key, and of this value if any is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelWanted {
    key: String,
    value: Option<String>,
}

impl LabelWanted {
    /// Whether a volume with these labels is asked for.
    pub fn is_in(&self, labels: &Labels) -> bool {
        let is_it = |found: &String| self.value.as_ref().is_none_or(|wanted| wanted == found);
        labels.get(&self.key).is_some_and(is_it)
    }
}

/// Whether a table of volumes shows their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelColumn {
    /// It does.
    Shown,
    /// It does not.
    Hidden,
}

/// Parses `KEY=VALUE`.
pub fn label(text: &str) -> Result<Label, String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    check_label_key(key).map_err(|error| error.to_string())?;
    check_label_value(value).map_err(|error| error.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses `KEY=VALUE` or `KEY-`.
pub fn label_change(text: &str) -> Result<LabelChange, String> {
    match (text.contains('='), text.strip_suffix('-')) {
        (true, _) => label(text).map(LabelChange::Set),
        (false, Some(key)) => {
            check_label_key(key).map_err(|error| error.to_string())?;
            Ok(LabelChange::Remove(key.to_owned()))
        }
        (false, None) => Err("write KEY=VALUE, or KEY- to take a label away".to_owned()),
    }
}

/// Parses `KEY=VALUE` or `KEY`.
pub fn label_wanted(text: &str) -> Result<LabelWanted, String> {
    if text.contains('=') {
        let (key, value) = label(text)?;
        return Ok(LabelWanted { key, value: Some(value) });
    }
    check_label_key(text).map_err(|error| error.to_string())?;
    Ok(LabelWanted { key: text.to_owned(), value: None })
}

/// Changes as a host is told: the labels that are set, and the keys of those that go. No key is
/// named twice.
pub fn told(changes: &[LabelChange]) -> Result<(Labels, Vec<String>), String> {
    let (mut set, mut remove, mut named) = (Labels::new(), Vec::new(), BTreeSet::new());
    for change in changes {
        let (LabelChange::Set((key, _)) | LabelChange::Remove(key)) = change;
        if !named.insert(key) {
            return Err(format!("label '{key}' is named twice"));
        }
        match change {
            LabelChange::Set((key, value)) => drop(set.insert(key.clone(), value.clone())),
            LabelChange::Remove(key) => remove.push(key.clone()),
        }
    }
    Ok((set, remove))
}

/// Labels for people, in one line.
pub fn in_one_line(labels: &Labels) -> String {
    if labels.is_empty() {
        return "-".to_owned();
    }
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_taken_away_and_asked_for_as_they_are_written() {
        let owned = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(label("env=prod"), Ok(owned("env", "prod")));
        assert_eq!(label("a.b/c=-"), Ok(owned("a.b/c", "-")));
        assert_eq!(label("env="), Ok(owned("env", "")));
        for bad in ["env", "=prod", "env=a=b", "-env=prod", "e v=1", "env=a b", "env-=1"] {
            assert!(label(bad).is_err(), "{bad}");
        }
        assert_eq!(label_change("tier-"), Ok(LabelChange::Remove("tier".to_owned())));
        assert_eq!(label_change("tier=a-"), Ok(LabelChange::Set(owned("tier", "a-"))));
        for bad in ["tier", "-", "tier--", "", "=", "tier-="] {
            assert!(label_change(bad).is_err(), "{bad}");
        }
        let labels = Labels::from([owned("env", "prod"), owned("empty", "")]);
        let is_wanted = |text| label_wanted(text).map(|wanted| wanted.is_in(&labels));
        for (text, expected) in [
            ("env", true),
            ("env=prod", true),
            ("env=", false),
            ("env=pro", false),
            ("empty=", true),
            ("tier", false),
            ("tier=", false),
        ] {
            assert_eq!(is_wanted(text), Ok(expected), "{text}");
        }
        assert!(is_wanted("env-").is_err() && is_wanted("").is_err());
        assert_eq!(in_one_line(&labels), "empty=,env=prod");
        assert_eq!(in_one_line(&Labels::new()), "-");
    }

    #[test]
    fn no_label_is_named_twice_in_one_command() {
        let told = |texts: &[&str]| {
            let changes = texts.iter().map(|text| label_change(text).expect("a change"));
            told(&changes.collect::<Vec<_>>())
        };
        let set = Labels::from([("env".to_owned(), "prod".to_owned())]);
        assert_eq!(told(&["env=prod", "tier-"]), Ok((set, vec!["tier".to_owned()])));
        for twice in [["env=a", "env=b"], ["env=a", "env-"], ["env-", "env-"]] {
            assert_eq!(told(&twice), Err("label 'env' is named twice".to_owned()));
        }
    }
}
