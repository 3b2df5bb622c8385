//! Many short slices in one allocation.
//!
//! A memory snapshot has millions of dicts of three entries. If each were a vector, its header and
//! its separate allocation would take several times its size in the file.

use std::collections::BTreeMap;

/// Slices by index, each of which may grow.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    items: Vec<T>,
    spans: Vec<[u32; 2]>, // start and length in `items`
    /// Rows that grew after others had been added. Moving them to the end of `items` each time
    /// would take quadratic time.
    grown: BTreeMap<usize, Vec<T>>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { items: Vec::new(), spans: Vec::new(), grown: BTreeMap::new() }
    }
}

impl<T: Copy> Rows<T> {
    /// Adds an empty row and returns its index.
    pub(crate) fn push(&mut self) -> usize {
        self.spans.push([0; 2]);
        self.spans.len() - 1
    }

    pub(crate) fn get(&self, row: usize) -> &[T] {
        match self.spans[row] {
            [_, 0] => self.grown.get(&row).map_or(&[], Vec::as_slice),
            [start, len] => &self.items[start as usize..][..len as usize],
        }
    }

    /// Appends to a row; `None` if there are too many items.
    pub(crate) fn extend(&mut self, row: usize, new: &[T]) -> Option<()> {
        if new.is_empty() {
            return Some(());
        }
        if let Some(own) = self.grown.get_mut(&row) {
            own.extend_from_slice(new);
            return Some(());
        }
        let [start, len] = self.spans[row];
        let end = self.items.len();
        if len > 0 && start as usize + len as usize != end {
            let own = [self.get(row), new].concat();
            self.spans[row] = [0; 2];
            self.grown.insert(row, own);
            return Some(());
        }
        let start = if len > 0 { start } else { u32::try_from(end).ok()? };
        let len = u32::try_from(new.len()).ok()?.checked_add(len)?;
        start.checked_add(len)?;
        self.items.extend_from_slice(new);
        self.spans[row] = [start, len];
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_row_has_the_items_appended_to_it(
            steps in proptest::collection::vec((0_usize..5, 0_usize..4), 0..60),
        ) {
            let mut rows = Rows::default();
            let mut plain: Vec<Vec<usize>> = Vec::new();
            for (at, (row, count)) in steps.into_iter().enumerate() {
                if row >= plain.len() {
                    prop_assert_eq!(rows.push(), plain.len());
                    plain.push(Vec::new());
                    continue;
                }
                let new: Vec<usize> = (at..at + count).collect();
                prop_assert_eq!(rows.extend(row, &new), Some(()));
                plain[row].extend(new);
            }
            for (row, expected) in plain.iter().enumerate() {
                prop_assert_eq!(rows.get(row), expected.as_slice());
            }
        }
    }

    #[test]
    fn two_rows_that_grow_in_turn_take_linear_space() {
        let mut rows = Rows::default();
        let (a, b) = (rows.push(), rows.push());
        for n in 0..10_000_u32 {
            rows.extend(a, &[n]).unwrap();
            rows.extend(b, &[n]).unwrap();
        }
        assert_eq!((rows.get(a).len(), rows.get(b).len()), (10_000, 10_000));
        assert!(rows.items.len() < 20_000);
    }
}
