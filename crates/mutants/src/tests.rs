// SPDX-License-Identifier: Apache-2.0
//! What the changed text looks like, and that it means what it should.

use crate::render::{Rendered, render};
use crate::scan::{Site, scan, test_modules};

fn changed(source: &str) -> (Vec<Site>, Rendered) {
    let mut next = 1;
    let sites = scan("f.rs", source, &mut next).unwrap();
    let rendered = render(source, &sites, |_| true);
    syn::parse_file(&rendered.text).unwrap_or_else(|error| panic!("{error}: {}", rendered.text));
    (sites, rendered)
}

fn words(source: &str) -> Vec<String> {
    let (sites, _) = changed(source);
    sites.iter().flat_map(|site| &site.mutants).map(|mutant| mutant.what.clone()).collect()
}

#[test]
fn a_comparison_and_its_condition_are_changed() {
    let source = "fn f(a: u8, b: u8) {\n    if a < b {\n        g();\n        h();\n    }\n}\n";
    let what = [
        "condition true: a < b",
        "condition false: a < b",
        "`<=` in a < b",
        "left out: g();",
        "left out: h();",
    ];
    assert_eq!(words(source), what);
    let (sites, rendered) = changed(source);
    let line = rendered.text.lines().nth(1).unwrap();
    let expected = "if mutants::cond(1, 2, (if mutants::is(3) { a <= b } else { a < b })) {";
    assert_eq!(line.trim().replace("::base::", ""), expected);
    assert_eq!(rendered.text.lines().count(), source.lines().count(), "lines stay where they were");
    assert_eq!((sites[0].mutants[0].line, sites[0].mutants[0].column), (2, 8));
}

#[test]
fn what_is_no_product_is_left_alone() {
    for source in [
        "const A: u8 = 1 + 2;\n",
        "static A: [u8; 3] = [0; 3];\n",
        "const fn f() -> u8 { 1 }\n",
        "#[cfg(test)]\nmod tests { fn f() -> u8 { 1 + 2 } }\n",
        "#[test]\nfn f() { g(1 + 2); h(); }\n",
        "fn f(a: Mode) -> X { if a.mutations.skip() { x } else { y } }\n",
        "fn f(a: X) -> X { match a { 1 | 2 => a, _ => a } }\n",
        "fn f(a: X) -> X { assert!(a < 3); tracing::info!(a = 2, \"x\"); a }\n",
        "fn f() -> X { base::hit(Probe::LogTurned); x }\n",
        "impl X { fn fmt(&self) -> bool { g(1); h() } }\n",
    ] {
        assert_eq!(words(source), Vec::<String>::new(), "{source}");
    }
    let modules = test_modules("#[cfg(test)]\nmod a;\nmod b;\n#[cfg(test)]\nmod c {}\n").unwrap();
    assert_eq!(modules, ["a"]);
}

#[test]
fn the_parts_of_a_chain_are_changed_beside_its_lets() {
    let what = words("fn f() -> X { if let Some(a) = b && c() && d { x } else { y } }\n");
    let parts =
        ["condition true: c()", "condition false: c()", "condition true: d", "condition false: d"];
    assert_eq!(what, parts);
    let what = words("fn f() -> X { let x = a && (b || c); x }\n");
    let expected = [
        "`||` in a && (b || c)",
        "condition true: a",
        "condition true: (b || c)",
        "`&&` in b || c",
        "condition false: b",
        "condition false: c",
    ];
    assert_eq!(what, expected);
}

/// Results are kept by label.
#[test]
fn no_two_mutants_have_one_label() {
    let long =
        "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q";
    let (sites, _) = changed(&format!("fn f() -> X {{ let x = {long}.x && b && {long}; x }}\n"));
    let labels = sites.iter().flat_map(|site| &site.mutants).map(|mutant| mutant.label());
    let mut labels: Vec<String> = labels.collect();
    let count = labels.len();
    labels.sort();
    labels.dedup();
    assert!(count >= 5 && labels.len() == count, "{labels:#?}");
}

#[test]
fn functions_literals_and_calls_are_changed() {
    assert_eq!(
        words("fn f() -> bool { g() }\n"),
        ["f returns at once true", "f returns at once false"]
    );
    assert_eq!(words("fn f() -> Option<X> { Some(x) }\n").len(), 2);
    assert_eq!(words("fn f() -> Result<(), E> { g() }\n"), ["f returns at once Ok(())"]);
    assert_eq!(words("fn f() -> X { g(5, a.min(b)) }\n").len(), 3);
    assert_eq!(words("fn f() -> X { Duration::from_secs(5) }\n").len(), 0);
    let what = words("fn f(a: X) -> X { if a > 3 { x } else { y } }\n");
    assert_eq!(what.len(), 3, "one more is what `>=` says: {what:?}");
    let text = changed("fn f() { a += 0x0F; }\n").1.text;
    assert!(text.contains("if !::base::mutants::is(1) { (if ::base::mutants::is(2)"), "{text}");
    assert!(text.contains("{ a -= 0x0F } else { a += (if"), "{text}");
    let what = words("fn f() -> X { if a { g(); return Err(b); } if c { return d; } x }\n");
    let returns = what.iter().filter(|what| what.starts_with("left out: return")).count();
    assert_eq!(returns, 1, "where nothing else stands, the condition says the same: {what:?}");
}

#[test]
fn a_complaint_is_about_the_innermost_site() {
    let source = "fn f(a: X) -> X { if a == b + c { x } else { y } }\n";
    let (sites, rendered) = changed(source);
    let at = rendered.text.find("b - c").unwrap();
    let met = rendered.sites_at(&(at..at + 1));
    let what: Vec<&str> = met.iter().map(|index| sites[*index].mutants[0].what.as_str()).collect();
    assert_eq!(what, ["`-` in b + c"]);
    assert!(rendered.sites_at(&(0..2)).is_empty());
    assert_eq!(rendered.sites_of_function(&sites, &(0..2)).len(), sites.len());
    let without = render(source, &sites, |site| site.mutants[0].what != "`-` in b + c");
    assert!(!without.text.contains("b - c") && without.text.contains("a != b + c"));
}

#[test]
fn no_mutant_is_active_unless_one_is_named() {
    use crate::runtime::{cond, is};
    assert!(!is(1) && !is(2));
    assert!(cond(1, 2, true) && !cond(1, 2, false));
}
