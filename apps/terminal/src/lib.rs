//! What the programs of this workspace share at the terminal: one look and one vocabulary.
//!
//! ```text
//!   output    results on standard output, words for people on standard error, the log, errors of clap
//!   table     columns that line up: words to the left, figures to the right
//!   progress  a bar on standard error, where that is a terminal
//!   quantity  bytes and times, as command lines have them and as tables show them
//! ```
//!
//! Colours follow `NO_COLOR`, `CLICOLOR_FORCE` and pipes (anstream decides). An option has one name, one
//! unit and one meaning in every program:
//!
//! | option | meaning | in |
//! | --- | --- | --- |
//! | `--gpu GPU` | auto, cuda, cuda:N or emulated; auto unless given | echo, rstream, kv, pingpong, bench, soak, usermap |
//! | `--transport NAME` | auto, tcp, rdma or local; auto unless given | echo, rstream, bench sizes |
//! | `--placement NAME` | where rings of RDMA streams lie | echo, rstream |
//! | `--sizes LIST` | bytes of messages or copies, with K, M or G | echo, pingpong, bench, usermap |
//! | `--size BYTES` | the same, where there is one | rstream, bench |
//! | `--messages N` | round trips of each size | echo, pingpong, bench |
//! | `--connections N` | connections at once | echo, kv, bench streams |
//! | `--blocks N`, `--threads N` | blocks of a kernel, threads of a block | echo, rstream, kv, bench |
//! | `--proxy-threads N` | threads of the proxy; 1 unless given | echo, kv, pingpong |
//! | `--ring BYTES` | capacity of each of a connection's two rings | echo, rstream, kv, bench |
//! | `--timeout SECONDS` | without a byte; 30 unless given | echo, rstream, pingpong |
//! | `--iterations N` | how often each is done | rstream, usermap |
//! | `--pairs N` | rounds in which a baseline and what is compared with it are measured | bench |
//! | `--cpu-threads N` | threads of the program | usermap sanity |
//! | `--limit SECONDS` | after which nothing further is begun | bench |
//! | `--minutes N` | how long it runs | soak |
//! | `--listen ADDR`, `--connect ADDR` | `HOST:PORT`, `[IPV6]:PORT` or `unix:/path` | echo, kv (IP alone) |
//! | `--json` | one object on standard output in place of the text (docs/reference/json.md) | all |
//! | `--quiet` | no progress on standard error | echo, pingpong, bench, soak |

pub mod output;
pub mod progress;
pub mod quantity;
pub mod table;
