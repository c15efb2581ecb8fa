// SPDX-License-Identifier: Apache-2.0
//! A scanner that knows enough Rust to tell code from comments and strings, and to find where a
//! function begins and ends. Positions and line breaks in its views are those of the source.

/// A source split in two views of the same length and the same lines.
pub struct Views {
    /// Code; comments and the inside of strings are blanks.
    pub code: String,
    /// Comments; everything else is blanks.
    pub comments: String,
}

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without path.
    pub name: String,
    /// The line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// Splits `source` into code and comments.
pub fn views(source: &str) -> Views {
    let bytes = source.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (end, kind) = token(bytes, at);
        for slot in &mut kinds[at..end] {
            *slot = kind;
        }
        at = end;
    }
    let pick = |wanted: Kind| {
        let picked = bytes.iter().zip(&kinds).map(|(&byte, &kind)| match byte {
            b'\n' => '\n',
            _ if kind != wanted => ' ',
            0x80.. => '?',
            _ => char::from(byte),
        });
        picked.collect()
    };
    Views { code: pick(Kind::Code), comments: pick(Kind::Comment) }
}

/// The token at `at`: its end and what it is. Always at least one byte long.
fn token(bytes: &[u8], at: usize) -> (usize, Kind) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        return (at + end, Kind::Comment);
    }
    if rest.starts_with(b"/*") {
        return (at + block_comment(rest), Kind::Comment);
    }
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if at > 0 && is_word(bytes[at - 1]) && rest[0] != b'"' {
        return (at + 1, Kind::Code);
    }
    if let Some(length) = raw_string(rest) {
        return (at + length, Kind::Text);
    }
    match rest[0] {
        b'"' => (at + quoted(rest, b'"'), Kind::Text),
        b'\'' if is_char_literal(rest) => (at + quoted(rest, b'\''), Kind::Text),
        _ => (at + 1, Kind::Code),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a raw string that begins here, if one does: `r"..."`, `br#"..."#` and so on.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take(2).take_while(|&&b| b == b'b' || b == b'c').count();
    if rest.get(prefix) != Some(&b'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|&&b| b == b'#').count();
    let open = prefix + 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &rest[open + 1..];
    let found = body.windows(close.len()).position(|window| window == close);
    Some(found.map_or(rest.len(), |found| open + 1 + found + close.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `'a'` and `'\n'` are literals; `'a` is a lifetime.
fn is_char_literal(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(&first) if first < 0x80 => rest.get(2) == Some(&b'\''),
        Some(_) => rest.iter().skip(2).take(4).any(|&b| b == b'\''),
        None => false,
    }
}

/// Every function with a body in `code` (the code view), in order.
pub fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_start = at == 0 || bytes[at - 1].is_ascii_whitespace();
        let name: String = code[at + 3..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        if !is_start || name.is_empty() {
            continue;
        }
        let Some(end) = body_end(bytes, at) else { continue };
        let line = 1 + count_lines(&bytes[..at]);
        found.push(Function { name, line, lines: 1 + count_lines(&bytes[at..end]) });
    }
    found
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'\n').count()
}

/// The position after the body's closing brace; `None` for a declaration without body.
fn body_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut braces = 0_usize;
    let mut inner = 0_usize;
    for (offset, &byte) in bytes[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' => inner += 1,
            b')' | b']' => inner = inner.saturating_sub(1),
            b';' if braces == 0 && inner == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && inner == 0 {
                    return Some(at + offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let views = views("let a = \"// no { \"; // yes \"x\"\nlet b = 'c'; /* { /* n */ } */ f()");
        assert!(!views.code.contains('{'), "{}", views.code);
        assert!(views.code.contains("f()"));
        assert!(views.comments.contains("yes"));
        assert!(!views.comments.contains("no"));
    }

    #[test]
    fn raw_strings_chars_and_lifetimes_are_told_apart() {
        let source = "fn f<'a>(x: &'a str) -> char { let _ = r#\"}\"#; let _ = '}'; '\\'' }";
        let code = views(source).code;
        assert_eq!(code.matches('}').count(), 1, "{code}");
        assert_eq!(code.len(), source.len());
    }

    #[test]
    fn an_identifier_that_ends_in_r_does_not_open_a_raw_string() {
        let code = views("for_r\"}\" {").code;
        assert_eq!(code.matches('}').count(), 0);
        assert_eq!(code.matches('{').count(), 1);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let code = "impl X {\n  fn a(\n    x: [u8; 2],\n  ) {\n    {}\n  }\n  fn b();\n}\n\
                    type F = fn (u8);\n";
        assert_eq!(functions(code), [Function { name: "a".into(), line: 2, lines: 5 }]);
    }
}
