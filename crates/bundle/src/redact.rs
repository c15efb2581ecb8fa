// SPDX-License-Identifier: Apache-2.0
//! Texts without secrets: by their form, by the name of the field that they are in, and by
//! themselves where they are known.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// What stands where a secret was.
pub const REMOVED: &str = "(removed)";
/// How that begins: a value ends before the parenthesis.
const BEGUN: &str = "(removed";
/// A known secret that is shorter is looked for only as a whole field: elsewhere it would take
/// parts of words away.
const KNOWN_BYTES_MIN: usize = 5;

/// Forms of secrets. A part `keep` stays, and the rest goes.
const FORMS: &[&str] = &[
    // Keys as PEM, also on one line as JSON writes them, and where the end is cut off.
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    // Tokens, sessions, invitations of ours.
    r"\bgb[a-z]_[0-9A-Za-z]{8,}(?:\.[0-9a-f]{8,})?",
    // Digests of passwords, as PHC strings and crypt(3) write them.
    r"\$(?:argon2[a-z]*|scrypt|pbkdf2[a-z0-9-]*|2[aby]|5|6|y)\$[^\s\x22'\\]+",
    // Secrets of webhooks.
    r"\bwhsec_[A-Za-z0-9+/=_-]+",
    // Credentials in headers, and after the word that begins them.
    r"(?i)(?<keep>\b(?:proxy-)?authorization[\x22']?\s*[:=]\s*[\x22']?)[^\r\n\x22']+",
    r"(?i)(?<keep>\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}",
    r"(?i)(?<keep>\b(?:set-)?cookie[\x22']?\s*:\s*[\x22']?)[^\r\n\x22']+",
    // What SMTP is signed in with.
    r"(?i)(?<keep>\bAUTH (?:PLAIN|LOGIN) )[A-Za-z0-9+/=]+",
    // Names and passwords in URLs.
    r"(?<keep>\b[a-z][a-z0-9+.-]*://)[^\s/@\x22']+:[^\s/@\x22']*@",
    // Sign-in codes.
    r"(?i)\b[0-9A-HJKMNP-TV-Z]{5}(?:-[0-9A-HJKMNP-TV-Z]{5}){3}\b",
    // SHA-256 of tokens, and secrets of invitations.
    r"(?i)\b[0-9a-f]{64}\b",
    // Tokens of others: JSON Web Tokens, GitHub, Slack, AWS.
    r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|xox[a-z]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16})",
];

/// Fields whose values go, however they look: of JSON, TOML, command lines and logs.
const FIELD: &str = r#"(?ix)
    (?<keep> (?<quote>\\?["'])? \b (?:[a-z0-9_-]*[_-])?
        (?: password | passwd | passphrase | secret | secrets | token | api[_-]?key | apikey
          | private[_-]?key | ca[_-]key | invitation | credential | credentials | psk )
        (?:\\?["'])? \s* (?: [:=] | \s ) \s* )
    (?<value> \\" (?: [^"\\] | \\[^"] )* \\"
            | " (?: [^"\\] | \\. )* "
            | ' [^']* '
            | [^\s"',;\]\}\)]+ )
"#;

/// Values of such fields that say nothing.
const HARMLESS: &[&str] =
    &["null", "none", "true", "false", "\"\"", "''", "(not", "\"(not kept)\""];

static FORMS_READ: LazyLock<Vec<Regex>> =
    LazyLock::new(|| FORMS.iter().filter_map(|form| Regex::new(form).ok()).collect());
static FIELD_READ: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FIELD).ok());
static KEY_END: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"-----END [A-Z0-9 ]*PRIVATE KEY-----").ok());

/// Takes secrets out of texts.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Vec<String>,
}

impl Redactor {
    /// One that also takes out these, wherever they stand: as they are, as JSON writes them, and in
    /// base 64.
    pub fn knowing(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut known = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.len() >= KNOWN_BYTES_MIN) {
            let json = serde_json::to_string(&secret).unwrap_or_default();
            let json = json.trim_matches('"').to_owned();
            known.extend([STANDARD.encode(&secret), json, secret]);
        }
        // The longest first: one may be a part of another.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        known.dedup();
        Self { known }
    }

    /// The text without secrets, and how many were taken out.
    #[must_use]
    pub fn clean(&self, text: &str) -> (String, u64) {
        let mut count = 0;
        let mut text = without_key_end(text, &mut count);
        for secret in &self.known {
            let found = text.matches(secret.as_str()).count();
            if found > 0 {
                text = text.replace(secret.as_str(), REMOVED);
                count += u64::try_from(found).unwrap_or(u64::MAX);
            }
        }
        for form in FORMS_READ.iter() {
            text = replaced(form, &text, &mut count);
        }
        if let Some(field) = FIELD_READ.as_ref() {
            let value = |found: &Captures<'_>| {
                let (keep, value) = (&found["keep"], &found["value"]);
                let is_harmless = HARMLESS.contains(&value.to_ascii_lowercase().as_str());
                if is_harmless || value.contains(BEGUN) || is_word_of_prose(keep, value) {
                    return found[0].to_owned();
                }
                count += 1;
                let quote = if value.starts_with('"') { "\"" } else { "" };
                format!("{keep}{quote}{REMOVED}{quote}")
            };
            text = field.replace_all(&text, value).into_owned();
        }
        (text, count)
    }
}

/// Whether a name and what follows it, without anything between, are words of a sentence.
fn is_word_of_prose(keep: &str, value: &str) -> bool {
    let is_separated = keep.trim_end().ends_with([':', '=']) || keep.contains(['"', '\'', '-']);
    let is_plain = value.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.');
    !is_separated && is_plain
}

fn replaced(form: &Regex, text: &str, count: &mut u64) -> String {
    let put = |found: &Captures<'_>| {
        let kept = found.name("keep").map_or("", |kept| kept.as_str());
        if found[0].ends_with(REMOVED) {
            return found[0].to_owned();
        }
        *count += 1;
        format!("{kept}{REMOVED}")
    };
    form.replace_all(text, put).into_owned()
}

/// A text that begins in the middle of a key: all up to the key's end goes.
fn without_key_end(text: &str, count: &mut u64) -> String {
    let end = KEY_END.as_ref().and_then(|end| end.find(text));
    match end {
        Some(end) if !text[..end.start()].contains("-----BEGIN ") => {
            *count += 1;
            format!("{REMOVED}{}", &text[end.end()..])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
