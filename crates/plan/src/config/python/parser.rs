//! Tokens to assignments and expressions, by recursive descent of bounded depth.

use super::{
    Construct, DEPTH_LIMIT, ExpectedToken, Position, PythonError, Reason, TEXT_LIMIT,
    lexer::{FStringPart, Token, TokenKind, tokens},
    syntax::{Assignment, Expr, FormatPart, Function, Link, Node},
};
use crate::config::{keys::Key, value::ConfigValue};

/// Words that cannot be names. `True`, `False` and `None` are values.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Keywords that open or continue an expression rather than a statement.
const WORDS_OF_EXPRESSIONS: [&str; 5] = ["True", "False", "None", "not", "lambda"];

/// Whether the value of a name may stay unknown: the name of a label, or one that is no key.
pub(in crate::config) fn is_free(name: &str) -> bool {
    Key::find(name).is_none_or(Key::is_label)
}

/// Every assignment of a file, in order. Imports and bare strings are skipped.
pub(in crate::config) fn parse_file(text: &str) -> Result<Vec<Assignment>, PythonError> {
    parse(text, |parser| {
        let mut assignments = Vec::new();
        while *parser.peek() != TokenKind::End {
            assignments.extend(parser.statement()?);
        }
        Ok(assignments)
    })
}

/// Parses a text that is one expression.
pub(in crate::config) fn parse_expression(text: &str) -> Result<Expr, PythonError> {
    parse(text, |parser| {
        let value = parser.expression()?;
        parser.end_of_line()?;
        match parser.peek() {
            TokenKind::End => Ok(value),
            _ => Err(parser.expected(ExpectedToken::OneExpression)),
        }
    })
}

/// Reports the first error in the text, whether of the lexer or of the parser.
fn parse<T>(
    text: &str,
    read: impl FnOnce(&mut Parser) -> Result<T, PythonError>,
) -> Result<T, PythonError> {
    let (tokens, fault) = tokens(text);
    let parsed = read(&mut Parser::new(tokens));
    match (parsed, fault) {
        (Err(refusal), Some(fault)) if refusal.spot < fault.spot => Err(refusal),
        (_, Some(fault)) => Err(fault),
        (parsed, None) => parsed,
    }
}

struct Parser {
    tokens: std::vec::IntoIter<Token>,
    depth: u32,
    last: Position,
    bytes_behind: usize, // of the last token taken
    names: Vec<String>,  // taken since the start of a value
}

impl Parser {
    fn new(tokens: Vec<Token>) -> Self {
        Self {
            tokens: tokens.into_iter(),
            depth: 0,
            last: Position { line: 1, column: 1 },
            bytes_behind: 0,
            names: Vec::new(),
        }
    }

    fn peek(&self) -> &TokenKind {
        self.tokens.as_slice().first().map_or(&TokenKind::End, |token| &token.what)
    }

    fn peek_second(&self) -> &TokenKind {
        self.tokens.as_slice().get(1).map_or(&TokenKind::End, |token| &token.what)
    }

    fn spot(&self) -> Position {
        self.tokens.as_slice().first().map_or(self.last, |token| token.spot)
    }

    fn next(&mut self) -> TokenKind {
        match self.tokens.next() {
            Some(token) => {
                self.last = token.spot;
                self.bytes_behind = token.bytes_behind;
                if let TokenKind::Name(name) = &token.what {
                    self.names.push(name.clone());
                }
                token.what
            }
            None => TokenKind::End,
        }
    }

    /// Takes the operator if it is one of `wanted`.
    fn take_op(&mut self, wanted: &[&'static str]) -> Option<(&'static str, Position)> {
        let TokenKind::Op(op) = *self.peek() else { return None };
        let spot = self.spot();
        wanted.contains(&op).then(|| {
            self.next();
            (op, spot)
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
        PythonError { spot: self.spot(), reason: Reason::Expected { expected, found } }
    }

    fn unsupported(&self, what: Construct) -> PythonError {
        PythonError { spot: self.spot(), reason: Reason::Unsupported { what } }
    }

    /// One level deeper, if the limit allows.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, PythonError>,
    ) -> Result<T, PythonError> {
        if self.depth == DEPTH_LIMIT {
            let reason = Reason::TooDeep { limit: DEPTH_LIMIT };
            return Err(PythonError { spot: self.spot(), reason });
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Skips `from x import y`, unless it would set keys of the config: that file is not read.
    fn skip_from_import(&mut self) -> Result<Option<Assignment>, PythonError> {
        let spot = self.spot();
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
            return Err(PythonError { spot, reason: Reason::Unsupported { what } });
        }
        self.end_of_line()?;
        Ok(None)
    }

    fn statement(&mut self) -> Result<Option<Assignment>, PythonError> {
        let spot = self.spot();
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
                word if WORDS_OF_EXPRESSIONS.contains(&word) => {}
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
        if let Node::Value(ConfigValue::Str(_)) = value.node {
            return Ok(None); // a docstring
        }
        Err(PythonError { spot, reason: Reason::Unsupported { what: Construct::Unassigned } })
    }

    fn assignment(&mut self) -> Result<Assignment, PythonError> {
        let mut targets = Vec::new();
        while let (TokenKind::Name(name), TokenKind::Op("=")) = (self.peek(), self.peek_second()) {
            if KEYWORDS.contains(&name.as_str()) {
                return Err(self.expected(ExpectedToken::NameBeforeEquals));
            }
            targets.push((name.clone(), self.spot()));
            self.next();
            self.next();
        }
        let bytes_before_value = self.bytes_behind;
        let value = self.value(targets.iter().all(|(name, _)| is_free(name)))?;
        let bytes_behind = [bytes_before_value, self.bytes_behind];
        self.end_of_line()?;
        Ok(Assignment { targets, value, bytes_behind })
    }

    /// An expression up to the end of its line. One that may stay unknown and cannot be parsed is
    /// skipped.
    fn value(&mut self, may_be_unknown: bool) -> Result<Expr, PythonError> {
        let spot = self.spot();
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
        Ok(Expr { spot, node: Node::Unknown { error: Box::new(error), names } })
    }

    fn augmented_assignment(&mut self) -> Result<Assignment, PythonError> {
        let spot = self.spot();
        let (TokenKind::Name(name), TokenKind::Op(op)) = (self.next(), self.next()) else {
            return Err(self.expected(ExpectedToken::NameAndOperator));
        };
        let Some(op) = augmented(op) else { return Err(self.expected(ExpectedToken::Operator)) };
        let first = Box::new(Expr { spot, node: Node::Name(name.clone()) });
        let bytes_before_value = self.bytes_behind;
        let right = self.value(is_free(&name))?;
        let bytes_behind = [bytes_before_value, self.bytes_behind];
        self.end_of_line()?;
        let node = if op == "**" {
            Node::Power { base: first, exponent: Box::new(right) }
        } else {
            Node::Chain { first, rest: vec![Link { spot, op, right }] }
        };
        Ok(Assignment { targets: vec![(name, spot)], value: Expr { spot, node }, bytes_behind })
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
            let spot = p.spot();
            if !p.take_word("if") {
                return Ok(then);
            }
            let condition = Box::new(p.any()?);
            if !p.take_word("else") {
                return Err(p.expected(ExpectedToken::Text("else")));
            }
            let otherwise = Box::new(p.expression()?);
            Ok(Expr { spot, node: Node::If { then: Box::new(then), condition, otherwise } })
        })
    }

    fn any(&mut self) -> Result<Expr, PythonError> {
        let first = self.all()?;
        let spot = first.spot;
        let mut parts = vec![first];
        while self.take_word("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, spot, Node::Any))
    }

    fn all(&mut self) -> Result<Expr, PythonError> {
        let first = self.negation()?;
        let spot = first.spot;
        let mut parts = vec![first];
        while self.take_word("and") {
            parts.push(self.negation()?);
        }
        Ok(one_or(parts, spot, Node::All))
    }

    fn negation(&mut self) -> Result<Expr, PythonError> {
        let spot = self.spot();
        if self.take_word("not") {
            let of = Box::new(self.nested(Self::negation)?);
            return Ok(Expr { spot, node: Node::Not(of) });
        }
        let first = self.sum()?;
        let rest = self.links(&["==", "!=", "<=", ">=", "<", ">"], Self::sum)?;
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expr { spot, node: Node::Compare { first: Box::new(first), rest } })
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
        let spot = self.spot();
        let first = part(self)?;
        let rest = self.links(ops, part)?;
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expr { spot, node: Node::Chain { first: Box::new(first), rest } })
    }

    fn links(
        &mut self,
        ops: &[&'static str],
        part: fn(&mut Self) -> Result<Expr, PythonError>,
    ) -> Result<Vec<Link>, PythonError> {
        let mut links = Vec::new();
        while let Some((op, spot)) = self.take_op(ops) {
            links.push(Link { spot, op, right: part(self)? });
        }
        Ok(links)
    }

    /// A sign binds looser than `**` on its right: `-2 ** 2` is -4.
    fn signed(&mut self) -> Result<Expr, PythonError> {
        if let Some((sign, spot)) = self.take_op(&["-", "+"]) {
            let of = Box::new(self.nested(Self::signed)?);
            return Ok(Expr { spot, node: Node::Sign { sign, of } });
        }
        let base = self.atom()?;
        let Some((_, spot)) = self.take_op(&["**"]) else { return Ok(base) };
        let exponent = Box::new(self.nested(Self::signed)?);
        Ok(Expr { spot, node: Node::Power { base: Box::new(base), exponent } })
    }

    fn atom(&mut self) -> Result<Expr, PythonError> {
        let spot = self.spot();
        let node = match self.peek() {
            TokenKind::Int(value) => Node::Value(ConfigValue::Int(*value)),
            TokenKind::Float(value) => Node::Value(ConfigValue::Float(*value)),
            TokenKind::Str(_) | TokenKind::FString(_) => return self.strings(spot),
            TokenKind::Name(name) => match name.as_str() {
                "True" => Node::Value(ConfigValue::Bool(true)),
                "False" => Node::Value(ConfigValue::Bool(false)),
                "None" => Node::Value(ConfigValue::None),
                "lambda" => return Err(self.unsupported(Construct::Lambda)),
                word if KEYWORDS.contains(&word) => return Err(self.expected(ExpectedToken::Value)),
                _ => return self.name_or_call(spot),
            },
            TokenKind::Op("(") => return self.parenthesised(),
            TokenKind::Op("[") => return Err(self.unsupported(Construct::List)),
            TokenKind::Op("{") => return Err(self.unsupported(Construct::DictOrSet)),
            TokenKind::Op(op @ ("~" | "...")) => return Err(self.unsupported(Construct::Sign(op))),
            _ => return Err(self.expected(ExpectedToken::Value)),
        };
        self.next();
        Ok(Expr { spot, node })
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
    fn strings(&mut self, spot: Position) -> Result<Expr, PythonError> {
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
                    spot,
                    reason: Reason::TextTooLong { limit: TEXT_LIMIT },
                });
            }
        }
        if parts.is_empty() {
            return Ok(Expr { spot, node: Node::Value(text.into()) });
        }
        parts.push(FormatPart::Text(text));
        Ok(Expr { spot, node: Node::Format(parts) })
    }

    /// A field of the f-string that comes next: `value:spec`. Strings and conversions inside of it
    /// are not supported, so that a field has no fields.
    fn field(&mut self, text: &str) -> Result<FormatPart, PythonError> {
        let refused = self.unsupported(Construct::FString);
        if text.contains(['\'', '"', '!', '{']) {
            // Names in it count as read.
            self.names.extend(words_of(text));
            return Err(refused);
        }
        let (value, spec) = text.split_once(':').unwrap_or((text, ""));
        self.names.extend(words_of(value));
        let value = parse_expression(value)
            .map_err(|error| PythonError { spot: refused.spot, reason: error.reason })?;
        Ok(FormatPart::Field { value, spec: spec.to_owned() })
    }

    fn name_or_call(&mut self, spot: Position) -> Result<Expr, PythonError> {
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
        let refuse = |what| Err(PythonError { spot, reason: Reason::Unsupported { what } });
        if self.take_op(&["("]).is_none() {
            return if path.contains('.') {
                refuse(Construct::AttributePath(path))
            } else {
                Ok(Expr { spot, node: Node::Name(path) })
            };
        }
        let Some(function) = Function::ALL.into_iter().find(|f| f.path() == path) else {
            return refuse(Construct::CallOf(path));
        };
        let arguments = self.arguments()?;
        Ok(Expr { spot, node: Node::Call { function, arguments } })
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

fn one_or(mut parts: Vec<Expr>, spot: Position, join: fn(Vec<Expr>) -> Node) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            Expr { spot, node: join(parts) }
        }
    }
}
