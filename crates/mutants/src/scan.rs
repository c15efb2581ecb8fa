// SPDX-License-Identifier: Apache-2.0
//! Finds the places of a source file that can be changed, and says how.
//!
//! A *site* is a piece of an expression or a statement with text before and behind it. That text
//! asks at run time which mutant is active, so one build contains all of them. A site adds no line
//! break: lines of the copy are lines of the source.
//!
//! Left alone: tests, constants, patterns, the inside of macros (assertions and logs are macros),
//! formatting for people, counters, and what asks for a switch or a quirk.

use proc_macro2::Span;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, BinOp, Block, Expr, ExprLit, ImplItemFn, ItemFn, Lit, Pat, ReturnType, Signature,
    Stmt, Type, UnOp,
};

/// The path of what changed code asks (`runtime.rs`).
const IS: &str = "::base::mutants::is";
/// What contains one of these is left alone: switches that break rules, quirks, counters, probes.
const LEFT_ALONE: [&str; 6] = ["mutations", "quirk", "Quirk", "counters", "stats", "hit(Probe"];

/// One change of the product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// From 1, in the order of the sites of all files.
    pub number: u32,
    pub path: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// What it changes, for people, on one line.
    pub what: String,
    /// Where the function around it begins, bytes of the source.
    pub function: usize,
}

impl Mutant {
    /// Says the same of a mutant as long as its line and those above it stay as they are.
    pub fn label(&self) -> String {
        format!("{}:{}:{}: {}", self.path, self.line, self.column, self.what)
    }
}

/// A piece of source with what is put around it.
pub struct Site {
    /// Bytes of the source.
    pub range: Range<usize>,
    pub before: String,
    pub behind: String,
    pub mutants: Vec<Mutant>,
    /// Where the text before and behind stands in the order of all texts at one byte.
    pub opened: usize,
    pub closed: usize,
    /// The function around it, bytes of the source.
    pub function: Range<usize>,
}

/// The sites of one file. Numbers begin at `next` and leave it behind the last one.
///
/// Errors: the source is not Rust.
pub fn scan(path: &str, source: &str, next: &mut u32) -> syn::Result<Vec<Site>> {
    let file = syn::parse_file(source)?;
    let mut scanner =
        Scanner { path, source, next, sites: Vec::new(), order: 0, function: 0..source.len() };
    scanner.visit_file(&file);
    Ok(scanner.sites)
}

/// The modules in files of their own that `source` has for tests alone.
pub fn test_modules(source: &str) -> syn::Result<Vec<String>> {
    let file = syn::parse_file(source)?;
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_conditional(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    Ok(modules.collect())
}

struct Scanner<'a> {
    path: &'a str,
    source: &'a str,
    next: &'a mut u32,
    sites: Vec<Site>,
    order: usize,
    function: Range<usize>,
}

/// Tests, and what a feature adds or takes away.
fn is_conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("cfg") || path.is_ident("cfg_attr") || path.is_ident("test")
    })
}

impl Scanner<'_> {
    fn text(&self, range: &Range<usize>) -> &str {
        &self.source[range.clone()]
    }

    fn text_of(&self, node: &impl Spanned) -> String {
        self.text(&node.span().byte_range()).to_owned()
    }

    fn is_left_alone(&self, node: &impl Spanned) -> bool {
        let text = self.text_of(node);
        LEFT_ALONE.iter().any(|word| text.contains(word))
    }

    /// A number for a change at `span`.
    fn mutant(&mut self, span: Span, what: &str) -> Mutant {
        let number = *self.next;
        *self.next += 1;
        let start = span.start();
        let words: Vec<&str> = what.split_whitespace().collect();
        let mut what = words.join(" ");
        if what.len() > 100 {
            // Two long ones may differ behind the cut, hardly in length.
            let length = what.len();
            what.truncate(90);
            what.push_str(&format!("... ({length})"));
        }
        let (path, function) = (self.path.into(), self.function.start);
        Mutant { number, path, line: start.line, column: start.column + 1, what, function }
    }

    /// Opens a site; `close` ends it once what is inside has been visited.
    fn open(&mut self, range: Range<usize>, before: String, mutants: Vec<Mutant>) -> usize {
        self.order += 1;
        let (opened, function) = (self.order, self.function.clone());
        let behind = String::new();
        self.sites.push(Site { range, before, behind, mutants, opened, closed: 0, function });
        self.sites.len() - 1
    }

    fn close(&mut self, site: usize, behind: &str) {
        self.order += 1;
        self.sites[site].behind = behind.into();
        self.sites[site].closed = self.order;
    }

    /// `node` unless the mutant is active, then `changed`, which is text of the source. The mutant
    /// stands `at` its operator: a chain has several with one beginning.
    fn instead(
        &mut self,
        node: &Expr,
        at: Span,
        changed: &str,
        what: &str,
        inside: impl FnOnce(&mut Self, &Expr),
    ) {
        if changed.contains("//") || self.is_left_alone(node) {
            return inside(self, node);
        }
        let changed = changed.split_whitespace().collect::<Vec<_>>().join(" ");
        let mutant = self.mutant(at, what);
        let before = format!("(if {IS}({}) {{ {changed} }} else {{ ", mutant.number);
        let site = self.open(node.span().byte_range(), before, vec![mutant]);
        inside(self, node);
        self.close(site, " })");
    }

    /// A condition that is always true or never.
    fn condition(&mut self, node: &Expr, can_be_true: bool, can_be_false: bool) {
        let is_constant = matches!(node, Expr::Lit(_));
        if is_constant || self.is_left_alone(node) {
            return self.visit_expr(node);
        }
        let text = self.text_of(node);
        let mut mutants = Vec::new();
        for (wanted, word) in [(can_be_true, "true"), (can_be_false, "false")] {
            if wanted {
                mutants.push(self.mutant(node.span(), &format!("condition {word}: {text}")));
            }
        }
        let numbers: Vec<u32> = mutants.iter().map(|mutant| mutant.number).collect();
        let before = match numbers[..] {
            [always, never] => format!("::base::mutants::cond({always}, {never}, "),
            [always] if can_be_true => format!("({IS}({always}) | ("),
            [never] => format!("(!{IS}({never}) & ("),
            _ => return self.visit_expr(node),
        };
        let site = self.open(node.span().byte_range(), before, mutants);
        self.visit_expr(node);
        self.close(site, if can_be_true && can_be_false { ")" } else { "))" });
    }

    /// The condition of an `if` or `while`: as a whole, or the parts beside its `let`s.
    fn conditions(&mut self, node: &Expr, can_be_true: bool) {
        match node {
            Expr::Let(inner) => self.visit_expr(&inner.expr),
            Expr::Binary(binary) if has_let(node) => {
                self.conditions(&binary.left, can_be_true);
                self.conditions(&binary.right, can_be_true);
            }
            _ => self.condition(node, can_be_true, true),
        }
    }

    /// The parts of `a && b`, each of which may be as if it were not there.
    fn parts(&mut self, node: &Expr) {
        let Expr::Binary(binary) = node else { return self.visit_expr(node) };
        let is_and = matches!(binary.op, BinOp::And(_));
        for part in [&*binary.left, &*binary.right] {
            let is_same = matches!(part, Expr::Binary(inner)
                if matches!(inner.op, BinOp::And(_)) == is_and
                    && matches!(inner.op, BinOp::And(_) | BinOp::Or(_)));
            if is_same || has_let(part) {
                self.visit_expr(part);
            } else {
                self.condition(part, is_and, !is_and);
            }
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if signature.constness.is_some() || signature.ident == "fmt" {
            return;
        }
        let before = std::mem::replace(&mut self.function, block.span().byte_range());
        let at = block.brace_token.span.open().byte_range().end;
        for value in values_of(&signature.output) {
            // The only statement of a function is a site by itself.
            if value.is_empty() && block.stmts.len() < 2 || self.is_left_alone(&signature.ident) {
                continue;
            }
            let what = format!("{} returns at once {value}", signature.ident);
            let mutant = self.mutant(signature.ident.span(), &what);
            let text = format!(" if {IS}({}) {{ return {value}; }}", mutant.number);
            let site = self.open(at..at, text, vec![mutant]);
            self.close(site, "");
        }
        self.visit_block(block);
        self.function = before;
    }

    /// A call, an assignment or an early exit that can be left out.
    fn statement(&mut self, node: &Stmt) -> bool {
        let Stmt::Expr(expr, Some(_)) = node else { return false };
        if !can_be_left_out(expr) || self.is_left_alone(node) {
            return false;
        }
        let text = self.text_of(node);
        let mutant = self.mutant(node.span(), &format!("left out: {text}"));
        let before = format!("if !{IS}({}) {{ ", mutant.number);
        let site = self.open(node.span().byte_range(), before, vec![mutant]);
        visit::visit_stmt(self, node);
        self.close(site, " }");
        true
    }

    fn binary(&mut self, node: &Expr, binary: &syn::ExprBinary) {
        let (left, right) = (self.text_of(&binary.left), self.text_of(&binary.right));
        let is_logic = matches!(binary.op, BinOp::And(_) | BinOp::Or(_));
        let Some(other) = changed_operator(&binary.op).filter(|_| !has_let(node)) else {
            return if is_logic { self.parts(node) } else { visit::visit_expr(self, node) };
        };
        let changed = format!("{left} {other} {right}");
        self.instead(
            node,
            binary.op.span(),
            &changed,
            &format!("`{other}` in {}", self.text_of(node)),
            |own, node| {
                if is_logic {
                    return own.parts(node);
                }
                use BinOp::{Ge, Gt, Le, Lt};
                let is_bound = matches!(binary.op, Lt(_) | Le(_) | Gt(_) | Ge(_));
                for part in [&*binary.left, &*binary.right] {
                    // A bound of one more is what the other operator says already.
                    if !(is_bound && matches!(part, Expr::Lit(_))) {
                        own.visit_expr(part);
                    }
                }
            },
        );
    }

    /// `a.min(b)` and `a.max(b)`.
    fn least(&mut self, node: &Expr, call: &syn::ExprMethodCall) {
        let other = match call.method.to_string().as_str() {
            "min" => "max",
            "max" => "min",
            _ => return visit::visit_expr(self, node),
        };
        let (of, with) = (self.text_of(&call.receiver), self.text_of(&call.args));
        let changed = format!("{of}.{other}({with})");
        let what = format!("`{other}` in {}", self.text_of(node));
        self.instead(node, call.method.span(), &changed, &what, |own, node| {
            visit::visit_expr(own, node)
        });
    }

    fn literal(&mut self, node: &ExprLit) {
        let Lit::Int(number) = &node.lit else {
            if let Lit::Bool(_) = &node.lit {
                let text = self.text_of(node);
                let mutant = self.mutant(node.span(), &format!("not {text}"));
                let before = format!("({IS}({}) != ", mutant.number);
                let site = self.open(node.span().byte_range(), before, vec![mutant]);
                self.close(site, ")");
            }
            return;
        };
        let Ok(value) = number.base10_parse::<u64>() else { return };
        let text = self.text_of(node);
        let suffix = number.suffix().to_owned();
        let (mut before, mut mutants) = ("(".to_owned(), Vec::new());
        for other in [value.checked_add(1), value.checked_sub(1)].into_iter().flatten() {
            let mutant = self.mutant(node.span(), &format!("{text} is {other}"));
            before += &format!("if {IS}({}) {{ {other}{suffix} }} else ", mutant.number);
            mutants.push(mutant);
        }
        let site = self.open(node.span().byte_range(), before + "{ ", mutants);
        self.close(site, " })");
    }
}

impl<'ast> Visit<'ast> for Scanner<'_> {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !is_conditional(&node.attrs) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        if !is_conditional(&node.attrs) {
            visit::visit_item_impl(self, node);
        }
    }

    fn visit_item_fn(&mut self, node: &'ast ItemFn) {
        if !is_conditional(&node.attrs) {
            self.function(&node.sig, &node.block);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast ImplItemFn) {
        if !is_conditional(&node.attrs) {
            self.function(&node.sig, &node.block);
        }
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.function(&node.sig, block);
        }
    }

    fn visit_pat(&mut self, node: &'ast Pat) {
        if let Pat::Guard(pattern) = node {
            self.conditions(&pattern.guard, true);
        }
    }

    fn visit_block(&mut self, node: &'ast Block) {
        for stmt in &node.stmts {
            // Without its only statement, the condition before a block is as good as false.
            let is_only = node.stmts.len() == 1 && matches!(stmt, Stmt::Expr(Expr::Return(_), _));
            if is_only || !self.statement(stmt) {
                self.visit_stmt(stmt);
            }
        }
    }

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        self.conditions(&node.cond, true);
        self.visit_block(&node.then_branch);
        if let Some((_, other)) = &node.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, node: &'ast syn::ExprWhile) {
        self.conditions(&node.cond, false);
        self.visit_block(&node.body);
    }

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    fn visit_expr_lit(&mut self, node: &'ast ExprLit) {
        self.literal(node);
    }

    fn visit_expr(&mut self, node: &'ast Expr) {
        match node {
            Expr::Binary(binary) => self.binary(node, binary),
            Expr::MethodCall(call) if call.args.len() == 1 => self.least(node, call),
            Expr::Call(call) if is_time(&call.func) => {}
            Expr::Call(call) if is_some(&call.func) && call.attrs.is_empty() => {
                let what = format!("None, not {}", self.text_of(node));
                let mutant = self.mutant(node.span(), &what);
                let behind = format!(".filter(|_| !{IS}({}))", mutant.number);
                let site = self.open(node.span().byte_range(), String::new(), vec![mutant]);
                visit::visit_expr(self, node);
                self.close(site, &behind);
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let what = format!("without its `!`: {}", self.text_of(node));
                let mutant = self.mutant(node.span(), &what);
                let before = format!("({IS}({}) != (", mutant.number);
                let site = self.open(node.span().byte_range(), before, vec![mutant]);
                visit::visit_expr(self, node);
                self.close(site, "))");
            }
            _ => visit::visit_expr(self, node),
        }
    }
}

fn has_let(node: &Expr) -> bool {
    match node {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn can_be_left_out(expr: &Expr) -> bool {
    match expr {
        Expr::Call(node) => node.attrs.is_empty(),
        Expr::MethodCall(node) => node.attrs.is_empty(),
        Expr::Assign(node) => node.attrs.is_empty() && !matches!(*node.left, Expr::Infer(_)),
        Expr::Return(node) => node.attrs.is_empty(),
        Expr::Try(node) => can_be_left_out(&node.expr),
        Expr::Await(node) => can_be_left_out(&node.base),
        Expr::Binary(node) => is_assignment(&node.op),
        _ => false,
    }
}

fn is_assignment(op: &BinOp) -> bool {
    use BinOp::{AddAssign, BitAndAssign, BitOrAssign, SubAssign};
    matches!(op, AddAssign(_) | SubAssign(_) | BitAndAssign(_) | BitOrAssign(_))
}

/// `Duration::from_secs(5)`: how long something waits changes nothing that tests should see.
fn is_time(function: &Expr) -> bool {
    let Expr::Path(path) = function else { return false };
    path.path.segments.iter().any(|segment| segment.ident == "Duration")
}

fn is_some(function: &Expr) -> bool {
    matches!(function, Expr::Path(path) if path.path.is_ident("Some"))
}

/// What a function of this type may return without looking at anything.
fn values_of(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, of) = output else { return vec![""] };
    let Type::Path(path) = &**of else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    match last.ident.to_string().as_str() {
        "bool" => vec!["true", "false"],
        "Option" => vec!["None"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => vec!["0", "1"],
        "Result" => match &last.arguments {
            syn::PathArguments::AngleBracketed(inner) => match inner.args.first() {
                Some(syn::GenericArgument::Type(Type::Tuple(unit))) if unit.elems.is_empty() => {
                    vec!["Ok(())"]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The operator that stands there instead.
fn changed_operator(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::Mul(_) => "/",
        BinOp::Div(_) => "*",
        BinOp::BitAnd(_) => "|",
        BinOp::BitOr(_) => "&",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::BitAndAssign(_) => "|=",
        BinOp::BitOrAssign(_) => "&=",
        _ => return None,
    })
}
