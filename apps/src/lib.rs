//! What the programs of this folder share, beside what is in `apps/terminal` and `host/sockets`.
//!
//! ```text
//!   gpu         opens a GPU with the kernels loaded, and waits for kernels
//!   transport   --transport and --placement: what can be asked for, and what this machine has
//!   failure     why a program cannot go on, in one line, and its exit status
//!   stop        Ctrl-C and its kin
//! ```

pub mod failure;
pub mod gpu;
pub mod stop;
pub mod transport;
