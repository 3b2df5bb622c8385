//! Tokens to assignments and expressions, by recursive descent of bounded depth.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a token or an expression that is not named is not supported"
)]

use super::{
    Construct, DEPTH_LIMIT, ExpectedToken, PythonError, Reason, TEXT_LIMIT, TextPosition,
    lexer::{Token, TokenKind, tokens},
    string::FStringPart,
    syntax::{Assignment, Expr, ExprKind, FormatPart, Link, PythonFunction},
};
use crate::{key::Key, value::ConfigValue};

/// Words that cannot be names. `True`, `False` and `None` are values.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Keywords that open or continue an expression rather than a statement.
const EXPRESSION_KEYWORDS: [&str; 5] = ["True", "False", "None", "not", "lambda"];

/// Whether the value of a name may stay unknown: true for labels and for names that are not keys.
pub(crate) fn is_free(name: &str) -> bool {
    Key::find(name).is_none_or(Key::is_label)
}

/// Every assignment of a file, in order. Imports and bare strings are skipped.
pub(crate) fn parse_file(text: &str) -> Result<Vec<Assignment>, PythonError> {
    parse(text, |parser| {
        let mut assignments = Vec::new();
        while *parser.peek() != TokenKind::End {
            assignments.extend(parser.statement()?);
        }
        Ok(assignments)
    })
}

/// Parses a text that is one expression.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, PythonError> {
    parse(text, |parser| {
        let value = parser.expression()?;
        parser.end_of_line()?;
        match parser.peek() {
            TokenKind::End => Ok(value),
            _ => Err(parser.expected(ExpectedToken::OneExpression)),
        }
    })
}

/// Reports the first error in the text, from the lexer or the parser.
fn parse<T>(
    text: &str,
    read: impl FnOnce(&mut Parser) -> Result<T, PythonError>,
) -> Result<T, PythonError> {
    let (tokens, fault) = tokens(text);
    let parsed = read(&mut Parser::new(tokens));
    match (parsed, fault) {
        (Err(refusal), Some(fault)) if refusal.position < fault.position => Err(refusal),
        (_, Some(fault)) => Err(fault),
        (parsed, None) => parsed,
    }
}

struct Parser {
    tokens: std::vec::IntoIter<Token>,
    depth: u32,
    last: TextPosition,
    bytes_after: usize, // of the last token taken
    names: Vec<String>, // taken since the start of a value
}

impl Parser {
    fn new(tokens: Vec<Token>) -> Self {
        Self {
            tokens: tokens.into_iter(),
            depth: 0,
            last: TextPosition { line: 1, column: 1 },
            bytes_after: 0,
            names: Vec::new(),
        }
    }

    fn peek(&self) -> &TokenKind {
        self.tokens.as_slice().first().map_or(&TokenKind::End, |token| &token.what)
    }

    fn peek_second(&self) -> &TokenKind {
        self.tokens.as_slice().get(1).map_or(&TokenKind::End, |token| &token.what)
    }

    fn position(&self) -> TextPosition {
        self.tokens.as_slice().first().map_or(self.last, |token| token.position)
    }

    fn next(&mut self) -> TokenKind {
        match self.tokens.next() {
            Some(token) => {
                self.last = token.position;
                self.bytes_after = token.bytes_after;
                if let TokenKind::Name(name) = &token.what {
                    self.names.push(name.clone());
                }
                token.what
            }
            None => TokenKind::End,
        }
    }

    /// Takes the operator if it is one of `wanted`.
    fn take_op(&mut self, wanted: &[&'static str]) -> Option<(&'static str, TextPosition)> {
        let TokenKind::Op(op) = *self.peek() else { return None };
        let position = self.position();
        wanted.contains(&op).then(|| {
            self.next();
            (op, position)
        })
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_there = matches!(self.peek(), TokenKind::Name(name) if name == word);
        if is_there {
            self.next();
        }
        is_there
    }

    fn expected(&self, expected: ExpectedToken) -> PythonError {
        let found = self.peek().shown();
        PythonError { position: self.position(), reason: Reason::Expected { expected, found } }
    }

    fn unsupported(&self, what: Construct) -> PythonError {
        PythonError { position: self.position(), reason: Reason::Unsupported { what } }
    }

    /// Calls `parse` one level deeper, if the limit allows.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, PythonError>,
    ) -> Result<T, PythonError> {
        if self.depth == DEPTH_LIMIT {
            let reason = Reason::TooDeep { limit: DEPTH_LIMIT };
            return Err(PythonError { position: self.position(), reason });
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Skips `from x import y`, but refuses it if it would set keys of the config, because the
    /// imported file is not read.
    fn skip_from_import(&mut self) -> Result<Option<Assignment>, PythonError> {
        let position = self.position();
        let mut text = String::new();
        let mut sets_keys = false;
        let mut is_after_import = false;
        while !matches!(self.peek(), TokenKind::Newline | TokenKind::End) {
            let word = match self.peek() {
                TokenKind::Name(name) => name.clone(),
                TokenKind::Op(op) => (*op).to_owned(),
                _ => String::new(),
            };
            sets_keys |= is_after_import && (word == "*" || Key::find(&word).is_some());
            is_after_import |= word == "import";
            let is_joined = text.is_empty() || word == "." || text.ends_with('.');
            text += if is_joined { "" } else { " " };
            text += &word;
            self.next();
        }
        if sets_keys {
            let what = Construct::Statement(text);
            return Err(PythonError { position, reason: Reason::Unsupported { what } });
        }
        self.end_of_line()?;
        Ok(None)
    }

    fn statement(&mut self) -> Result<Option<Assignment>, PythonError> {
        let position = self.position();
        if let TokenKind::Name(name) = self.peek() {
            match name.as_str() {
                "from" => return self.skip_from_import(),
                "import" => {
                    while !matches!(self.peek(), TokenKind::Newline | TokenKind::End) {
                        self.next();
                    }
                    self.end_of_line()?;
                    return Ok(None);
                }
                word if EXPRESSION_KEYWORDS.contains(&word) => {}
                word if KEYWORDS.contains(&word) => {
                    return Err(self.unsupported(Construct::Statement(word.to_owned())));
                }
                _ => match self.peek_second() {
                    TokenKind::Op("=") => return self.assignment().map(Some),
                    TokenKind::Op(op) if augmented(op).is_some() => {
                        return self.augmented_assignment().map(Some);
                    }
                    TokenKind::Op(":") => return Err(self.unsupported(Construct::Annotation)),
                    TokenKind::Op(",") => return Err(self.unsupported(Construct::TupleAssignment)),
                    _ => {}
                },
            }
        }
        let value = self.expression()?;
        self.end_of_line()?;
        if let ExprKind::Value(ConfigValue::Str(_)) = value.kind {
            return Ok(None); // a docstring
        }
        Err(PythonError { position, reason: Reason::Unsupported { what: Construct::Unassigned } })
    }

    fn assignment(&mut self) -> Result<Assignment, PythonError> {
        let mut targets = Vec::new();
        while let (TokenKind::Name(name), TokenKind::Op("=")) = (self.peek(), self.peek_second()) {
            if KEYWORDS.contains(&name.as_str()) {
                return Err(self.expected(ExpectedToken::NameBeforeEquals));
            }
            targets.push((name.clone(), self.position()));
            self.next();
            self.next();
        }
        let bytes_before_value = self.bytes_after;
        let value = self.value(targets.iter().all(|(name, _)| is_free(name)))?;
        let bytes_after = [bytes_before_value, self.bytes_after];
        self.end_of_line()?;
        Ok(Assignment { targets, value, bytes_after })
    }

    /// An expression up to the end of its line. If it cannot be parsed and `may_be_unknown` is set,
    /// it is skipped.
    fn value(&mut self, may_be_unknown: bool) -> Result<Expr, PythonError> {
        let position = self.position();
        self.names.clear();
        let parsed = self.expression();
        let is_end = |parser: &Self| matches!(parser.peek(), TokenKind::Newline | TokenKind::End);
        let error = match parsed {
            Ok(value) if is_end(self) || !may_be_unknown => return Ok(value),
            Ok(_) => match self.end_of_line() {
                Ok(()) => self.expected(ExpectedToken::EndOfLine),
                Err(error) => error,
            },
            Err(error) if !may_be_unknown => return Err(error),
            Err(error) => error,
        };
        while !is_end(self) {
            self.next();
        }
        let names = std::mem::take(&mut self.names);
        Ok(Expr { position, kind: ExprKind::Unknown { error: Box::new(error), names } })
    }

    fn augmented_assignment(&mut self) -> Result<Assignment, PythonError> {
        let position = self.position();
        let (TokenKind::Name(name), TokenKind::Op(op)) = (self.next(), self.next()) else {
            return Err(self.expected(ExpectedToken::NameAndOperator));
        };
        let Some(op) = augmented(op) else { return Err(self.expected(ExpectedToken::Operator)) };
        let first = Box::new(Expr { position, kind: ExprKind::Name(name.clone()) });
        let bytes_before_value = self.bytes_after;
        let right = self.value(is_free(&name))?;
        let bytes_after = [bytes_before_value, self.bytes_after];
        self.end_of_line()?;
        let kind = if op == "**" {
            ExprKind::Power { base: first, exponent: Box::new(right) }
        } else {
            ExprKind::Chain { first, rest: vec![Link { position, op, right }] }
        };
        Ok(Assignment {
            targets: vec![(name, position)],
            value: Expr { position, kind },
            bytes_after,
        })
    }

    /// Expects the end of a line; otherwise names the unsupported construct that follows.
    fn end_of_line(&mut self) -> Result<(), PythonError> {
        match self.peek() {
            TokenKind::Newline => {
                self.next();
                Ok(())
            }
            TokenKind::End => Ok(()),
            TokenKind::Op(",") => Err(self.unsupported(Construct::Tuple)),
            TokenKind::Op(".") => Err(self.unsupported(Construct::Attribute)),
            TokenKind::Op("[") => Err(self.unsupported(Construct::Index)),
            TokenKind::Op("(") => Err(self.unsupported(Construct::Call)),
            TokenKind::Op(op @ ("&" | "|" | "^" | ">>" | "<<")) => {
                Err(self.unsupported(Construct::Operator((*op).to_owned())))
            }
            TokenKind::Name(word) if word == "in" || word == "is" => {
                Err(self.unsupported(Construct::Operator(word.clone())))
            }
            TokenKind::Name(word) if word == "for" => {
                Err(self.unsupported(Construct::Comprehension))
            }
            _ => Err(self.expected(ExpectedToken::EndOfLine)),
        }
    }

    /// `a if c else b`, the lowest precedence.
    fn expression(&mut self) -> Result<Expr, PythonError> {
        self.nested(|p| {
            let then = p.any()?;
            let position = p.position();
            if !p.take_word("if") {
                return Ok(then);
            }
            let condition = Box::new(p.any()?);
            if !p.take_word("else") {
                return Err(p.expected(ExpectedToken::Text("else")));
            }
            let otherwise = Box::new(p.expression()?);
            Ok(Expr { position, kind: ExprKind::If { then: Box::new(then), condition, otherwise } })
        })
    }

    fn any(&mut self) -> Result<Expr, PythonError> {
        let first = self.all()?;
        let position = first.position;
        let mut parts = vec![first];
        while self.take_word("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, position, ExprKind::Any))
    }

    fn all(&mut self) -> Result<Expr, PythonError> {
        let first = self.negation()?;
        let position = first.position;
        let mut parts = vec![first];
        while self.take_word("and") {
            parts.push(self.negation()?);
        }
        Ok(one_or(parts, position, ExprKind::All))
    }

    fn negation(&mut self) -> Result<Expr, PythonError> {
        let position = self.position();
        if self.take_word("not") {
            let of = Box::new(self.nested(Self::negation)?);
            return Ok(Expr { position, kind: ExprKind::Not(of) });
        }
        let first = self.sum()?;
        let rest = self.links(&["==", "!=", "<=", ">=", "<", ">"], Self::sum)?;
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expr { position, kind: ExprKind::Compare { first: Box::new(first), rest } })
    }

    fn sum(&mut self) -> Result<Expr, PythonError> {
        self.chain(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Result<Expr, PythonError> {
        self.chain(&["*", "/", "//", "%"], Self::signed)
    }

    fn chain(
        &mut self,
        ops: &[&'static str],
        part: fn(&mut Self) -> Result<Expr, PythonError>,
    ) -> Result<Expr, PythonError> {
        let position = self.position();
        let first = part(self)?;
        let rest = self.links(ops, part)?;
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expr { position, kind: ExprKind::Chain { first: Box::new(first), rest } })
    }

    fn links(
        &mut self,
        ops: &[&'static str],
        part: fn(&mut Self) -> Result<Expr, PythonError>,
    ) -> Result<Vec<Link>, PythonError> {
        let mut links = Vec::new();
        while let Some((op, position)) = self.take_op(ops) {
            links.push(Link { position, op, right: part(self)? });
        }
        Ok(links)
    }

    /// A sign binds looser than `**` on its right: `-2 ** 2` is -4.
    fn signed(&mut self) -> Result<Expr, PythonError> {
        if let Some((sign, position)) = self.take_op(&["-", "+"]) {
            let of = Box::new(self.nested(Self::signed)?);
            return Ok(Expr { position, kind: ExprKind::Sign { sign, of } });
        }
        let base = self.atom()?;
        let Some((_, position)) = self.take_op(&["**"]) else { return Ok(base) };
        let exponent = Box::new(self.nested(Self::signed)?);
        Ok(Expr { position, kind: ExprKind::Power { base: Box::new(base), exponent } })
    }

    fn atom(&mut self) -> Result<Expr, PythonError> {
        let position = self.position();
        let kind = match self.peek() {
            TokenKind::Int(value) => ExprKind::Value(ConfigValue::Int(*value)),
            TokenKind::Float(value) => ExprKind::Value(ConfigValue::Float(*value)),
            TokenKind::Str(_) | TokenKind::FString(_) => return self.strings(position),
            TokenKind::Name(name) => match name.as_str() {
                "True" => ExprKind::Value(ConfigValue::Bool(true)),
                "False" => ExprKind::Value(ConfigValue::Bool(false)),
                "None" => ExprKind::Value(ConfigValue::None),
                "lambda" => return Err(self.unsupported(Construct::Lambda)),
                word if KEYWORDS.contains(&word) => return Err(self.expected(ExpectedToken::Value)),
                _ => return self.name_or_call(position),
            },
            TokenKind::Op("(") => return self.parenthesised(),
            TokenKind::Op("[") => return Err(self.unsupported(Construct::List)),
            TokenKind::Op("{") => return Err(self.unsupported(Construct::DictOrSet)),
            TokenKind::Op(op @ ("~" | "...")) => return Err(self.unsupported(Construct::Sign(op))),
            _ => return Err(self.expected(ExpectedToken::Value)),
        };
        self.next();
        Ok(Expr { position, kind })
    }

    fn parenthesised(&mut self) -> Result<Expr, PythonError> {
        self.next();
        if *self.peek() == TokenKind::Op(")") {
            return Err(self.unsupported(Construct::Tuple));
        }
        let inner = self.expression()?;
        if self.take_op(&[")"]).is_none() {
            // The lexer drops line ends inside parentheses, so `end_of_line` only names what can
            // follow here: a tuple or a comprehension.
            self.end_of_line()?;
            return Err(self.expected(ExpectedToken::Text(")")));
        }
        Ok(inner)
    }

    /// Adjacent strings are concatenated.
    fn strings(&mut self, position: TextPosition) -> Result<Expr, PythonError> {
        let mut text = String::new();
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                TokenKind::Str(part) => text.push_str(part),
                TokenKind::FString(pieces) => {
                    for piece in pieces.clone() {
                        match piece {
                            FStringPart::Text(part) => text.push_str(&part),
                            FStringPart::Field(field) => {
                                parts.push(FormatPart::Text(std::mem::take(&mut text)));
                                parts.push(self.field(&field)?);
                            }
                        }
                    }
                }
                _ => break,
            }
            self.next();
            if text.len() > TEXT_LIMIT {
                return Err(PythonError {
                    position,
                    reason: Reason::TextTooLong { limit: TEXT_LIMIT },
                });
            }
        }
        if parts.is_empty() {
            return Ok(Expr { position, kind: ExprKind::Value(text.into()) });
        }
        parts.push(FormatPart::Text(text));
        Ok(Expr { position, kind: ExprKind::Format(parts) })
    }

    /// A field of the next f-string: `value:spec`. Strings and conversions inside a field are not
    /// supported, so fields are never nested.
    fn field(&mut self, text: &str) -> Result<FormatPart, PythonError> {
        let refused = self.unsupported(Construct::FString);
        if text.contains(['\'', '"', '!', '{']) {
            // Names inside it count as used.
            self.names.extend(words_of(text));
            return Err(refused);
        }
        let (value, spec) = text.split_once(':').unwrap_or((text, ""));
        self.names.extend(words_of(value));
        let value = parse_expression(value)
            .map_err(|error| PythonError { position: refused.position, reason: error.reason })?;
        Ok(FormatPart::Field { value, spec: spec.to_owned() })
    }

    fn name_or_call(&mut self, position: TextPosition) -> Result<Expr, PythonError> {
        let mut path = String::new();
        loop {
            let TokenKind::Name(name) = self.next() else {
                return Err(self.expected(ExpectedToken::Name));
            };
            path.push_str(&name);
            if self.take_op(&["."]).is_none() {
                break;
            }
            path.push('.');
            if !matches!(self.peek(), TokenKind::Name(_)) {
                return Err(self.expected(ExpectedToken::NameAfterDot));
            }
        }
        let refuse = |what| Err(PythonError { position, reason: Reason::Unsupported { what } });
        if self.take_op(&["("]).is_none() {
            return if path.contains('.') {
                refuse(Construct::AttributePath(path))
            } else {
                Ok(Expr { position, kind: ExprKind::Name(path) })
            };
        }
        let Some(function) = PythonFunction::ALL.into_iter().find(|f| f.path() == path) else {
            return refuse(Construct::CallOf(path));
        };
        let arguments = self.arguments()?;
        Ok(Expr { position, kind: ExprKind::Call { function, arguments } })
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, PythonError> {
        let mut arguments = Vec::new();
        while self.take_op(&[")"]).is_none() {
            arguments.push(self.expression()?);
            if *self.peek() == TokenKind::Op("=") {
                return Err(self.unsupported(Construct::ArgumentByName));
            }
            if self.take_op(&[","]).is_none() && *self.peek() != TokenKind::Op(")") {
                self.end_of_line()?;
                return Err(self.expected(ExpectedToken::Text(")")));
            }
        }
        Ok(arguments)
    }
}

/// Everything in a text that could be a name.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// The operator inside `+=`, `-=` and so on.
fn augmented(op: &str) -> Option<&'static str> {
    ["+", "-", "*", "/", "//", "%", "**"]
        .into_iter()
        .find(|plain| op.strip_suffix('=') == Some(plain))
}

fn one_or(mut parts: Vec<Expr>, position: TextPosition, join: fn(Vec<Expr>) -> ExprKind) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            Expr { position, kind: join(parts) }
        }
    }
}
