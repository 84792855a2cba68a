//! What the programs of this folder share.
//!
//! ```text
//!   gpu         opens a GPU with the kernels loaded
//!   way         --transport and --placement: what can be asked for, and what this machine has
//!   failure     why a program cannot go on, in one line, and its exit status
//!   quantity    numbers of bytes and times, as command lines have them
//!   print       results on standard output, words for people on standard error
//!   stop        Ctrl-C and its kin
//! ```

pub mod failure;
pub mod gpu;
pub mod print;
pub mod quantity;
pub mod stop;
pub mod transport;
