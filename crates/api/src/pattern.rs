// SPDX-License-Identifier: Apache-2.0
//! Names that are chosen by a pattern.

/// Whether a name is as a pattern says: one without `*` and `?` is looked for anywhere in it.
#[must_use]
pub fn is_named(name: &str, pattern: &str) -> bool {
    match pattern.contains(['*', '?']) {
        true => fits(name, pattern),
        false => name.contains(pattern),
    }
}

/// Whether all of a text is as a pattern says, in which `*` is any text and `?` one character.
fn fits(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Whether the pattern up to here fits the first characters of the text, for each number of
    // them: so no pattern takes long.
    let mut fitting = vec![false; text.len() + 1];
    fitting[0] = true;
    for wanted in pattern.chars() {
        if wanted == '*' {
            for count in 1..fitting.len() {
                fitting[count] |= fitting[count - 1];
            }
            continue;
        }
        for count in (1..fitting.len()).rev() {
            let is_it = wanted == '?' || wanted == text[count - 1];
            fitting[count] = fitting[count - 1] && is_it;
        }
        fitting[0] = false;
    }
    fitting[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_that_of_a_shell_and_never_takes_long() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("web", "web", true),
            ("web", "we", false),
            ("we", "web", false),
            ("web-10", "web-*", true),
            ("web-", "web-*", true),
            ("my-web-1", "web-*", false),
            ("my-web-1", "*web*", true),
            ("web-1", "web-?", true),
            ("web-10", "web-?", false),
            ("abcbc", "a*bc", true),
            ("abcbd", "a*bc", false),
            ("abc", "**a**c**", true),
            ("web.1", "web?1", true),
        ] {
            assert_eq!(fits(text, pattern), expected, "{text} and {pattern}");
        }
        assert!(!fits(&"a".repeat(63), &"*a".repeat(5000)));
    }
}
