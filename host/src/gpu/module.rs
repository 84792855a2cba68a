//! A kernel module as a program carries it: a name and the PTX compiled in, or why there is none.
//!
//! Build scripts make the value, [`Gpu::load`](super::Gpu::load) takes it. Plain data.

/// Kernels compiled together; they are launched by the module's name and their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name that launches use. One name stands for one content in a process.
    pub name: &'static str,
    /// The PTX text, or one line that says why the build had none to compile in.
    pub ptx: Result<&'static str, &'static str>,
}
