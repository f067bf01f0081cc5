//! Finds the `rules!` calls of a Rust file and the tests they stand in. It knows just enough of the language to tell code from
//! comments and texts, and to see which braces belong to which function; it judges no other macro and resolves no name.

use super::Claims;

/// The rules named by the tests of a Rust file.
pub(super) fn claims(source: &str) -> Claims {
    let mut walk = Walk {
        tokens: tokens(source),
        claims: Claims::default(),
        functions: Vec::new(),
        depth: 0,
        marks: Marks::default(),
    };
    walk.run();
    walk.claims
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A name, a keyword or a number.
    Word(String),
    /// The inside of a text literal, escapes untouched.
    Text(String),
    /// Any other character that is not white space.
    Sign(char),
}

/// What the attributes in front of an item say.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    test: bool,
    ignored: bool,
}

/// A function whose body is being read.
struct Function {
    name: String,
    marks: Marks,
    /// Number of open braces inside its body.
    depth: usize,
    /// Line of its first `rules!` call.
    line: Option<usize>,
    ids: Vec<String>,
}

struct Walk {
    tokens: Vec<(usize, Token)>,
    claims: Claims,
    functions: Vec<Function>,
    depth: usize,
    marks: Marks,
}

impl Walk {
    fn run(&mut self) {
        let mut at = 0;
        while let Some((line, token)) = self.tokens.get(at).cloned() {
            at = match &token {
                Token::Word(word)
                    if word == "macro_rules" && self.word(at + 2) == Some("rules") =>
                {
                    self.group_end(at + 3)
                }
                Token::Word(word) if word == "rules" && self.sign(at + 1) == Some('!') => {
                    self.rules_call(at + 2, line)
                }
                Token::Word(word) if word == "fn" => self.function(at + 1),
                Token::Sign('#') => self.attribute(at + 1),
                Token::Sign('{') => self.brace(1, at),
                Token::Sign('}') => self.brace(-1, at),
                Token::Sign(';') => {
                    self.marks = Marks::default();
                    at + 1
                }
                _ => at + 1,
            };
        }
        while !self.functions.is_empty() {
            self.close();
        }
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at) {
            Some((_, Token::Word(word))) => Some(word),
            _ => None,
        }
    }

    fn sign(&self, at: usize) -> Option<char> {
        match self.tokens.get(at) {
            Some((_, Token::Sign(sign))) => Some(*sign),
            _ => None,
        }
    }

    /// Index behind the bracket that closes the one at `at`; `at` itself where none opens there.
    fn group_end(&self, at: usize) -> usize {
        let mut open = 0_usize;
        for index in at..self.tokens.len() {
            match self.sign(index) {
                Some('(' | '[' | '{') => open += 1,
                Some(')' | ']' | '}') => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return if index == at { at } else { index + 1 };
            }
        }
        self.tokens.len()
    }

    fn brace(&mut self, change: isize, at: usize) -> usize {
        self.marks = Marks::default();
        if change < 0
            && self
                .functions
                .last()
                .is_some_and(|function| function.depth == self.depth)
        {
            self.close();
        }
        self.depth = self.depth.saturating_add_signed(change);
        at + 1
    }

    /// Ends the innermost function and takes over what it named.
    fn close(&mut self) {
        let function = self
            .functions
            .pop()
            .expect("close is called only while a function is open");
        let Some(line) = function.line else { return };
        match function.marks {
            Marks {
                test: true,
                ignored: false,
            } => self.claims.add(&function.name, line, function.ids),
            Marks {
                test: true,
                ignored: true,
            } => {
                self.claims.faults.push((
                    line,
                    format!("`{}` names rules but is switched off", function.name),
                ));
            }
            Marks { test: false, .. } => {
                self.claims.faults.push((
                    line,
                    format!("`{}` names rules but is not a test", function.name),
                ));
            }
        }
    }

    /// Reads an attribute from behind its `#`.
    fn attribute(&mut self, at: usize) -> usize {
        let inner = self.sign(at) == Some('!');
        let open = at + usize::from(inner);
        if self.sign(open) != Some('[') {
            return at;
        }
        let end = self.group_end(open);
        let path_end = (open + 1..end)
            .find(|&index| matches!(self.sign(index), Some('(' | '=' | ']')))
            .unwrap_or(end);
        let path = (open + 1..path_end)
            .rev()
            .find_map(|index| self.word(index));
        let is_test = path == Some("test");
        let is_ignored = path == Some("ignore")
            || (path == Some("cfg_attr")
                && (open..end).any(|index| self.word(index) == Some("ignore")));
        if !inner {
            self.marks.test |= is_test;
            self.marks.ignored |= is_ignored;
        }
        end
    }

    /// Reads the head of a function from behind `fn`; a function type and a function without a body are left alone.
    fn function(&mut self, at: usize) -> usize {
        let in_macro = self.sign(at) == Some('$');
        let Some(name) = self.word(at + usize::from(in_macro)) else {
            return at;
        };
        let name = if in_macro {
            format!("${name}")
        } else {
            name.to_owned()
        };
        let mut index = at + 1 + usize::from(in_macro);
        while index < self.tokens.len() {
            index = match self.sign(index) {
                Some('(' | '[') => self.group_end(index),
                Some('{') => {
                    let marks = std::mem::take(&mut self.marks);
                    self.depth += 1;
                    self.functions.push(Function {
                        name,
                        marks,
                        depth: self.depth,
                        line: None,
                        ids: Vec::new(),
                    });
                    return index + 1;
                }
                Some(';' | '}') => return index,
                _ => index + 1,
            };
        }
        index
    }

    /// Reads the arguments of a `rules!` call from its opening bracket; without one it is a comparison with `!=`.
    fn rules_call(&mut self, open: usize, line: usize) -> usize {
        let end = self.group_end(open);
        if end == open {
            return open;
        }
        let mut ids = Vec::new();
        for (_, token) in self.tokens.get(open + 1..end - 1).unwrap_or_default() {
            match token {
                Token::Text(text) => ids.push(text.clone()),
                Token::Sign(',') => {}
                other => self
                    .claims
                    .faults
                    .push((line, format!("`rules!` takes texts only, not {other:?}"))),
            }
        }
        match self.functions.last_mut() {
            Some(function) => {
                function.line.get_or_insert(line);
                function.ids.extend(ids);
            }
            None => self
                .claims
                .faults
                .push((line, "`rules!` stands outside a function".to_owned())),
        }
        end
    }
}

/// Splits a Rust source into tokens with their lines; comments, characters and lifetimes leave none.
fn tokens(source: &str) -> Vec<(usize, Token)> {
    let mut lexer = Lexer {
        rest: source,
        line: 1,
        tokens: Vec::new(),
    };
    while !lexer.rest.is_empty() {
        lexer.next();
    }
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<(usize, Token)>,
}

impl<'a> Lexer<'a> {
    /// Takes `bytes` bytes off the front and returns them.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn next(&mut self) {
        let first = self
            .rest
            .chars()
            .next()
            .expect("next is called only while text is left");
        if self.rest.starts_with("//") {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if first == '"' {
            self.text();
        } else if first == '\'' {
            self.quote();
        } else if first == '_' || first.is_alphanumeric() {
            self.word();
        } else {
            let line = self.line;
            self.take(first.len_utf8());
            if !first.is_whitespace() {
                self.tokens.push((line, Token::Sign(first)));
            }
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut open = 0_usize;
        loop {
            if self.rest.starts_with("/*") {
                open += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                open -= 1;
                self.take(2);
            } else if let Some(next) = self.rest.chars().next() {
                self.take(next.len_utf8());
            }
            if open == 0 || self.rest.is_empty() {
                return;
            }
        }
    }

    /// A text with escapes, from its opening quote.
    fn text(&mut self) {
        let line = self.line;
        let mut escaped = false;
        let inside = &self.rest[1..];
        let end = inside
            .char_indices()
            .find(|&(_, next)| {
                let closes = next == '"' && !escaped;
                escaped = next == '\\' && !escaped;
                closes
            })
            .map_or(inside.len(), |(at, _)| at);
        self.tokens
            .push((line, Token::Text(inside[..end].to_owned())));
        self.take((end + 2).min(self.rest.len()));
    }

    /// A text without escapes, from its first `#` or quote; of a raw name only the `#` is taken.
    fn raw_text(&mut self) {
        let line = self.line;
        let hashes = self.rest.bytes().take_while(|&byte| byte == b'#').count();
        let Some(inside) = self.rest[hashes..].strip_prefix('"') else {
            self.take(hashes);
            return;
        };
        let close = format!("\"{}", "#".repeat(hashes));
        let end = inside.find(&close).unwrap_or(inside.len());
        self.tokens
            .push((line, Token::Text(inside[..end].to_owned())));
        self.take((hashes + 1 + end + close.len()).min(self.rest.len()));
    }

    /// A character, which is skipped, or the quote of a lifetime, whose name is then read as a word.
    fn quote(&mut self) {
        let mut inside = self.rest.chars().skip(1);
        match (inside.next(), inside.next()) {
            (Some('\\'), Some(escaped)) => {
                let from = 2 + escaped.len_utf8();
                let close = self.rest[from..]
                    .find('\'')
                    .map_or(self.rest.len(), |at| from + at + 1);
                self.take(close);
            }
            (Some(one), Some('\'')) => {
                self.take(2 + one.len_utf8());
            }
            _ => {
                self.take(1);
            }
        }
    }

    fn word(&mut self) {
        let line = self.line;
        let end = self
            .rest
            .find(|next: char| next != '_' && !next.is_alphanumeric())
            .unwrap_or(self.rest.len());
        let word = self.take(end);
        if matches!(word, "r" | "br" | "cr") && self.rest.starts_with(['"', '#']) {
            self.raw_text();
        } else {
            // The prefix of a plain text, as in `b"…"`, stays behind as a word and harms nobody.
            self.tokens.push((line, Token::Word(word.to_owned())));
        }
    }
}
