//! The end-to-end suite, one theme a file, in one program: on CUDA its kernels are compiled once.
//!
//! What ends a GPU, a net or a process for good (`fault`, `proxy_panic`, `interrupt`) and what only the emulated GPU can
//! report (`divergence`) has a program of its own, as has what measures the process (`thousand`).

mod buffers;
mod control_memory;
mod counting;
mod endings;
mod events;
mod export;
mod faults;
mod groups;
mod handover;
mod images;
mod kept;
mod launches;
mod leases;
mod limits;
mod listeners;
mod listening;
mod local;
mod nets;
mod pollers;
mod polls;
mod queue_endings;
mod queues;
mod rdma;
mod refusals;
mod ring_slices;
mod shares;
mod streams;
mod system;
mod unaccepted;
mod waiting;
