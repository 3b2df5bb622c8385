//! The metadata of a Parquet file: schema, chunks, and page headers.

use super::thrift::{Compact, FieldType, ThriftError};

/// A column's bytes in one group of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnChunk {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) codec: i64,
    pub(super) n_values: u64,
}

/// A leaf of the schema.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) is_text: bool,
    pub(super) is_repeated: bool,
    pub(super) definition_limit: u32,
}

/// A page's header.
#[derive(Debug, Default)]
pub(super) struct PageHeader {
    pub(super) kind: i64,
    pub(super) bytes: i64,
    pub(super) stored_bytes: i64,
    pub(super) n_values: i64,
    pub(super) encoding: i64,
    pub(super) levels_bytes: Option<[i64; 2]>, // of version 2: repetition, definition
    pub(super) is_stored_plain: bool,
    /// CRC-32 of the page's bytes as they are stored.
    pub(super) checksum: Option<u32>,
}

/// The leaves of the schema, and the chunks of one of them.
pub(super) fn description(
    footer: &[u8],
    column: &str,
) -> Result<(Vec<Leaf>, Vec<ColumnChunk>), ThriftError> {
    let mut leaves = Vec::new();
    let mut chunks = Vec::new();
    let mut schema = SchemaWalk::default();
    Compact::new(footer).structure(|file, id, field| match (id, field) {
        (2, FieldType::List) => file.list(|file, _| {
            let at = file.at();
            let element = schema_element(file)?;
            schema.add(&element, &mut leaves).ok_or(ThriftError { at })
        }),
        (4, FieldType::List) => file.list(|file, _| {
            file.structure(|file, id, field| match (id, field) {
                (1, FieldType::List) => file.list(|file, _| {
                    chunks.extend(column_chunk(file, column)?);
                    Ok(())
                }),
                _ => file.skip(field),
            })
        }),
        _ => file.skip(field),
    })?;
    Ok((leaves, chunks))
}

#[derive(Debug, Default)]
struct SchemaElement {
    kind: Option<i64>,
    repetition: i64,
    name: String,
    n_children: i64,
}

/// The schema is a tree, written depth first.
#[derive(Debug, Default)]
struct SchemaWalk {
    /// For each open level: the number of children left, the length of the path above, and the sum
    /// of the levels above.
    open: Vec<(i64, usize, u32, bool)>,
    path: String,
    is_begun: bool,
}

impl SchemaWalk {
    fn add(&mut self, element: &SchemaElement, leaves: &mut Vec<Leaf>) -> Option<()> {
        if !self.is_begun {
            self.is_begun = true; // the root has no name and no repetition
            self.open.push((element.n_children, 0, 0, false));
            return Some(());
        }
        while self.open.last()?.0 <= 0 {
            self.open.pop();
        }
        let (left, path_len, mut definition_limit, mut is_repeated) = *self.open.last()?;
        self.open.last_mut()?.0 = left - 1;
        definition_limit += u32::from(element.repetition != 0);
        is_repeated |= element.repetition == 2;
        self.path.truncate(path_len);
        if path_len > 0 {
            self.path.push('.');
        }
        self.path.push_str(&element.name);
        if element.n_children > 0 {
            if self.open.len() > 64 {
                return None;
            }
            self.open.push((element.n_children, self.path.len(), definition_limit, is_repeated));
        } else {
            const BYTE_ARRAY: i64 = 6;
            let is_text = element.kind == Some(BYTE_ARRAY);
            leaves.push(Leaf { path: self.path.clone(), is_text, is_repeated, definition_limit });
        }
        Some(())
    }
}

fn schema_element(file: &mut Compact<'_>) -> Result<SchemaElement, ThriftError> {
    let mut element = SchemaElement::default();
    file.structure(|file, id, field| match (id, field) {
        (1, FieldType::Integer) => {
            element.kind = Some(file.integer()?);
            Ok(())
        }
        (3, FieldType::Integer) => {
            element.repetition = file.integer()?;
            Ok(())
        }
        (4, FieldType::Binary) => {
            element.name = String::from_utf8_lossy(file.binary()?).into_owned();
            Ok(())
        }
        (5, FieldType::Integer) => {
            element.n_children = file.integer()?;
            Ok(())
        }
        _ => file.skip(field),
    })?;
    Ok(element)
}

/// A chunk, if it is one of `column`.
fn column_chunk(file: &mut Compact<'_>, column: &str) -> Result<Option<ColumnChunk>, ThriftError> {
    let at = file.at();
    let (mut path, mut codec, mut n_values, mut len) = (String::new(), 0, 0, 0);
    let (mut data_at, mut dictionary_at) = (0, None);
    file.structure(|file, id, field| match (id, field) {
        (3, FieldType::Struct) => file.structure(|file, id, field| match (id, field) {
            (3, FieldType::List) => file.list(|file, field| match field {
                FieldType::Binary => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&String::from_utf8_lossy(file.binary()?));
                    Ok(())
                }
                field => file.skip(field),
            }),
            (4, FieldType::Integer) => file.integer().map(|value| codec = value),
            (5, FieldType::Integer) => file.integer().map(|value| n_values = value),
            (7, FieldType::Integer) => file.integer().map(|value| len = value),
            (9, FieldType::Integer) => file.integer().map(|value| data_at = value),
            (11, FieldType::Integer) => file.integer().map(|value| dictionary_at = Some(value)),
            _ => file.skip(field),
        }),
        _ => file.skip(field),
    })?;
    if path != column {
        return Ok(None);
    }
    // Some writers state a dictionary at 0 and have none.
    let start = dictionary_at.filter(|&at| at > 0 && at < data_at).unwrap_or(data_at);
    match (u64::try_from(start), u64::try_from(len), u64::try_from(n_values)) {
        (Ok(start), Ok(len), Ok(n_values)) => Ok(Some(ColumnChunk { start, len, codec, n_values })),
        _ => Err(ThriftError { at }),
    }
}

/// Reads a page's header.
pub(super) fn page_header(file: &mut Compact<'_>) -> Result<PageHeader, ThriftError> {
    let mut header = PageHeader::default();
    file.structure(|file, id, field| match (id, field) {
        (1, FieldType::Integer) => file.integer().map(|value| header.kind = value),
        (2, FieldType::Integer) => file.integer().map(|value| header.bytes = value),
        (3, FieldType::Integer) => file.integer().map(|value| header.stored_bytes = value),
        // Signed in the file.
        (4, FieldType::Integer) => file.integer().map(|value| header.checksum = Some(value as u32)),
        // A data page, or a dictionary.
        (5 | 7, FieldType::Struct) => file.structure(|file, id, field| match (id, field) {
            (1, FieldType::Integer) => file.integer().map(|value| header.n_values = value),
            (2, FieldType::Integer) => file.integer().map(|value| header.encoding = value),
            _ => file.skip(field),
        }),
        (8, FieldType::Struct) => {
            let levels = header.levels_bytes.insert([0; 2]);
            let (n_values, encoding) = (&mut header.n_values, &mut header.encoding);
            let is_stored_plain = &mut header.is_stored_plain;
            file.structure(|file, id, field| match (id, field) {
                (1, FieldType::Integer) => file.integer().map(|value| *n_values = value),
                (4, FieldType::Integer) => file.integer().map(|value| *encoding = value),
                (5, FieldType::Integer) => file.integer().map(|value| levels[1] = value),
                (6, FieldType::Integer) => file.integer().map(|value| levels[0] = value),
                (7, FieldType::False) => {
                    *is_stored_plain = true;
                    Ok(())
                }
                _ => file.skip(field),
            })
        }
        _ => file.skip(field),
    })?;
    Ok(header)
}
