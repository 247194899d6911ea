//! SQL92 expressions over the properties of a message, with the results of Java's filter module.
//!
//! Text becomes tokens (`token`), tokens become a short program in postfix order (`parse`, `code`), and the program
//! runs over the property bytes of a record where they lie (`run`): no map of the properties, no recursion. A value is
//! what Java makes of it (`value`), oddities included; an expression that Java refuses is refused with Java's text.

mod code;
mod parse;
mod run;
mod token;
mod value;

use code::Op;

/// A compiled expression. Cheap to run, from any thread.
#[derive(Debug, PartialEq)]
pub struct Expression {
    code: Box<[Op]>,
}

/// Why an expression cannot be used: the text of the exception that Java throws, as brokers send it to clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// It does not follow the grammar.
    #[error("org.apache.rocketmq.filter.parser.ParseException: {0}")]
    Grammar(String),
    /// Characters that begin no token.
    #[error("org.apache.rocketmq.filter.parser.TokenMgrError: {0}")]
    Token(String),
    /// An operand that its operator cannot take.
    #[error("java.lang.RuntimeException: {0}")]
    Operand(String),
    /// A whole number that 64 bits cannot hold.
    #[error("java.lang.NumberFormatException: For input string: \"{0}\"")]
    Number(String),
    /// A boolean as a limit of BETWEEN beside a text.
    #[error(
        "java.lang.ClassCastException: class java.lang.Boolean cannot be cast to class java.lang.String \
         (java.lang.Boolean and java.lang.String are in module java.base of loader 'bootstrap')"
    )]
    Cast,
    /// More operators or parentheses within one another than [`MAX_DEPTH`].
    #[error("java.lang.StackOverflowError")]
    Depth,
}

/// How deep operators and parentheses may lie within one another. Java ends where its stack does, at some thousands.
pub const MAX_DEPTH: usize = 256;

impl Expression {
    /// Compiles an expression. As with Java, whatever follows a whole expression is not looked at.
    ///
    /// # Errors
    /// It is none.
    pub fn compile(text: &str) -> Result<Expression, SqlError> {
        parse::parse(text).map(|code| Expression { code: code.into_boxed_slice() })
    }

    /// Whether it is true for a message with these properties (`name 0x01 value 0x02`, repeated). Neither unknown nor an
    /// error of a conversion is true.
    pub fn matches(&self, properties: &[u8]) -> bool {
        self.evaluate(properties) == Ok(Some(true))
    }

    /// True, false or unknown (`None`).
    ///
    /// # Errors
    /// A value that an operator needs as a number is none: Java throws, and the whole expression is not true.
    pub fn evaluate(&self, properties: &[u8]) -> Result<Option<bool>, Failed> {
        run::run(&self.code, properties)
    }
}

/// An evaluation without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value cannot be converted to what it is compared with")]
pub struct Failed;
