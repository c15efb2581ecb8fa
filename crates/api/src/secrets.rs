// SPDX-License-Identifier: Apache-2.0
//! Texts that open something: tokens, sessions' texts, codes, passwords. They are made and looked
//! at here, and nothing below the API hears more of them than a digest.

use crate::problem::Problem;
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};

/// Before the digits of a token, so that one that is found somewhere can be told for what it is.
const MARK: &str = "gbn_";
/// Random bytes of a token.
const SECRET_BYTES: usize = 32;
/// Random bytes beside a password.
const SALT_BYTES: usize = 16;
/// What codes are written with: Crockford's base 32, in which nothing looks like something else.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Letters of a code, five bits each, and of a group of them.
const CODE_LETTERS: usize = 20;
const CODE_GROUP: usize = 5;
/// A password has at least so many characters, and at most so many bytes.
const PASSWORD_MIN: usize = 12;
const PASSWORD_MAX: usize = 256;

fn random<const N: usize>() -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(read) if read == N => Ok(bytes),
        _ => Err(Problem::internal("the system gives no random bytes")),
    }
}

/// The digest of a secret that is random and long.
pub fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new text of a token or of a session.
pub fn token() -> Result<String, Problem> {
    Ok(format!("{MARK}{}", hex(&random::<SECRET_BYTES>()?)))
}

/// Whether a text has the form of a token's.
pub fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix(MARK);
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.is_some_and(|digits| digits.len() == 2 * SECRET_BYTES && digits.bytes().all(is_digit))
}

/// A new code, as people read and type it: `XXXXX-XXXXX-XXXXX-XXXXX`.
pub fn code() -> Result<String, Problem> {
    let letters = random::<CODE_LETTERS>()?.map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]);
    let groups: Vec<String> =
        letters.chunks(CODE_GROUP).map(|group| String::from_utf8_lossy(group).into()).collect();
    Ok(groups.join("-"))
}

/// The digest of a code, however it was typed. None where it is none.
pub fn code_digest(typed: &str) -> Option<String> {
    let letter = |letter: char| match letter.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        other => other,
    };
    let typed = typed.chars().filter(|letter| !matches!(letter, '-' | ' ')).map(letter);
    let plain: String = typed.take(CODE_LETTERS + 1).collect();
    let is_letter = |letter: u8| LETTERS.contains(&letter);
    (plain.len() == CODE_LETTERS && plain.bytes().all(is_letter)).then(|| digest(&plain))
}

/// Where passwords are looked at: one at a time, for each takes 19 MiB and some hundredths of a
/// second of CPU.
#[derive(Debug, Default)]
pub struct Passwords(Mutex<()>);

impl Passwords {
    /// The digest of a new password.
    ///
    /// # Errors
    /// The password is too short or too long.
    pub fn digest(&self, password: &str) -> Result<String, Problem> {
        if password.chars().count() < PASSWORD_MIN || password.len() > PASSWORD_MAX {
            return Err(Problem::usage(format!(
                "a password has {PASSWORD_MIN} characters or more, and {PASSWORD_MAX} bytes at most"
            )));
        }
        let salt = random::<SALT_BYTES>()?;
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
        digest
            .map(|digest| digest.to_string())
            .map_err(|error| Problem::internal(format!("no digest of a password: {error}")))
    }

    /// Whether a password is the one of this digest. It takes as long where there is none, so that
    /// nobody learns whether there is such a user.
    pub fn is_of(&self, password: &str, digest: Option<&str>) -> bool {
        if password.len() > PASSWORD_MAX {
            return false;
        }
        let Some(digest) = digest.and_then(|digest| PasswordHash::new(digest).ok()) else {
            let _ = self.digest("a password of nobody");
            return false;
        };
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Argon2::default().verify_password(password.as_bytes(), &digest).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_known_however_it_is_typed() {
        let code = code().expect("random bytes");
        assert_eq!(code.len(), CODE_LETTERS + 3, "{code}");
        let of = code_digest(&code);
        assert!(of.is_some());
        assert_eq!(code_digest(&code.to_lowercase().replace('-', " ")), of);
        let alike = code.replace('0', "o").replacen('1', "l", 1).replace('1', "I");
        assert_eq!(code_digest(&alike), of);
        let (short, long) = (&code[1..], format!("{code}0"));
        for wrong in [short, &long, "", &code.replace(&code[..1], "U"), &"0".repeat(1 << 20)] {
            assert_eq!(code_digest(wrong), None);
        }
        assert_ne!(code_digest(&self::code().expect("random bytes")), of, "each is another one");
    }

    #[test]
    fn a_password_is_known_by_its_digest_alone() {
        let passwords = Passwords::default();
        let digest = passwords.digest("correct horse battery").expect("long enough");
        assert!(digest.starts_with("$argon2id$") && digest.len() < 256, "{digest}");
        assert!(passwords.is_of("correct horse battery", Some(&digest)));
        assert!(!passwords.is_of("correct horse batterY", Some(&digest)));
        assert!(!passwords.is_of("correct horse battery", None));
        assert!(!passwords.is_of("correct horse battery", Some("no digest")));
        assert!(!passwords.is_of("a password of nobody", None));
        let again = passwords.digest("correct horse battery").expect("long enough");
        assert_ne!(again, digest, "each has salt of its own");
        for wrong in ["short", &"x".repeat(PASSWORD_MAX + 1)] {
            assert_eq!(passwords.digest(wrong).expect_err("refused").status, 400);
            assert!(!passwords.is_of(wrong, Some(&digest)));
        }
    }
}
