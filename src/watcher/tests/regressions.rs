//! Faults that were found by [`super::random`], one test each.
