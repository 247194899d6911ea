//! SQL92 expressions: what Java 5.5.0 makes of thousands of them, and that nothing upsets the compiler.

use std::collections::BTreeMap;
use std::path::Path;

use broker::filter::sql::{Expression, MAX_DEPTH, SqlError};
use proptest::prelude::*;
use serde_json::Value;

fn properties(of: &BTreeMap<String, String>) -> Vec<u8> {
    of.iter().flat_map(|(name, value)| format!("{name}\u{1}{value}\u{2}").into_bytes()).collect()
}

#[test]
fn q_02_expressions_as_java_evaluates_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sql/table.jsonl");
    let table = std::fs::read_to_string(path).unwrap();
    let mut lines = table.lines();
    let messages: Vec<BTreeMap<String, String>> = serde_json::from_str(lines.next().unwrap()).unwrap();
    let messages: Vec<Vec<u8>> = messages.iter().map(properties).collect();
    let mut rows = 0;
    let mut wrong = Vec::new();
    for line in lines {
        let row: Value = serde_json::from_str(line).unwrap();
        let sql = row["sql"].as_str().unwrap();
        let (mut error, mut results) = (None, None);
        match Expression::compile(sql) {
            Ok(expression) => {
                let letter = |message: &Vec<u8>| match expression.evaluate(message) {
                    Ok(Some(true)) => 'T',
                    Ok(Some(false)) => 'F',
                    Ok(None) => '?',
                    Err(_) => 'E',
                };
                results = Some(messages.iter().map(letter).collect::<String>());
            }
            Err(found) => error = Some(found.to_string()),
        }
        if error.as_deref() != row["error"].as_str() || results.as_deref() != row["results"].as_str() {
            wrong.push(format!("{sql:?}\n  Java: {row}\n  ours: {error:?} {results:?}"));
        }
        rows += 1;
    }
    assert!(rows > 5000, "{rows}");
    assert!(wrong.is_empty(), "{} of {rows} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("{}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::compile(&nested(MAX_DEPTH - 1)).unwrap().matches(b"a\x011"));
    for deep in
        [nested(MAX_DEPTH), nested(1_000_000), "NOT ".repeat(1_000_000), "+".repeat(1_000_000), "+(".repeat(500_000)]
    {
        assert_eq!(Expression::compile(&deep), Err(SqlError::Depth));
    }
    // Long is not deep.
    let long = vec!["a = 1"; 100_000].join(" AND ");
    assert!(Expression::compile(&long).unwrap().matches(b"a\x011\x02"));
    let last = format!("{} OR b = 2", vec!["a = 1"; 100_000].join(" OR "));
    assert!(Expression::compile(&last).unwrap().matches(b"b\x012\x02"));
}

#[test]
fn errors_of_huge_expressions_stay_small() {
    // Each BETWEEN shows its value twice.
    let mut value = "a".to_owned();
    for _ in 0..100 {
        value = format!("-({value} BETWEEN 1 AND 2)");
    }
    let error = Expression::compile(&value).unwrap_err().to_string();
    assert!(error.contains("boolean value: (- ((") && error.len() < 20_000, "{}", error.len());
    let quadratic = format!("a = {}1", "+".repeat(MAX_DEPTH - 2));
    assert!(Expression::compile(&quadratic).is_ok());
}

#[test]
fn odd_properties() {
    let is_x = Expression::compile("a = 'x'").unwrap();
    assert!(is_x.matches(b"a\x01y\x02a\x01x\x02") && !is_x.matches(b"a\x01x\x02a\x01y\x02"), "the last one counts");
    assert!(is_x.matches(b"b\x011\x02a\x01x") && !is_x.matches(b"a\x01\x02") && !is_x.matches(b"a"));
    assert!(Expression::compile("a = '\u{FFFD}'").unwrap().matches(b"a\x01\xff\x02"));
}

proptest! {
    #[test]
    fn any_text_compiles_or_fails(text in "\\PC{0,60}", properties in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(expression) = Expression::compile(&text) {
            let _ = expression.evaluate(&properties);
        }
    }

    #[test]
    fn any_tokens_compile_or_fail(
        tokens in prop::collection::vec(
            prop::sample::select(vec![
                "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH",
                "1", "5.5", "99999999999999999999", "'x'", "''", "a", "b", "=", "<>", ">", ">=", "<", "<=", "(", ",", ")", "+",
                "-", "#", "'", "/*", "--", "\n", "\t", "\r\n", "é", "🚀", ".",
            ]),
            0..25,
        ),
        properties in prop::collection::vec(prop::sample::select(b"ab1x\x01\x02\xff".to_vec()), 0..40),
        blank in any::<bool>(),
    ) {
        let text = tokens.join(if blank { " " } else { "" });
        match Expression::compile(&text) {
            Ok(expression) => {
                let first = expression.evaluate(&properties);
                prop_assert_eq!(first, expression.evaluate(&properties));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
