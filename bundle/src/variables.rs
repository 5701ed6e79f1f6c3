//! Variables in texts of a bundle: `${cluster.id}`, `${cluster.name}`, `${cluster.tenant}`, `${cluster.facts.X}`,
//! `${cluster.annotations.X}` and `${vars.X}`, each with `:-default`.
//!
//! `X` consists of letters, digits and `.`, `_`, `-`, `/`. Rules for all other text:
//!
//! - Text of any other form stays: `${HOME}`, `$X`, `${cluster.color}`, a reference without `}`.
//! - `$${vars.a}` is an escape for the text `${vars.a}`. Elsewhere `$$` stays.
//! - A default ends at the first `}` of its line. A default with `${` is an error.
//! - A replaced value is not searched again. Keys of maps are not searched.

mod name;
mod reference;
mod substitute;
mod used;

pub use name::{Variable, is_variable_suffix};
pub use substitute::{VariableError, substitute, substitute_text};
pub use used::UsedVariables;
