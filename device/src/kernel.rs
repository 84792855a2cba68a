//! Declaring kernels: once, in one place, for both GPUs.

#[cfg(not(target_arch = "nvptx64"))]
use std::{any::Any, sync::Arc, vec::Vec};

use crate::abi::address::SocketAddr;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::buf::Shared;

/// A kernel as a program names it: for CUDA by module and name, for the emulated GPU by what one
/// thread runs. Made by [`kernels!`](crate::kernels).
pub struct Kernel<A: 'static> {
    module: &'static str,
    name: &'static str,
    entry: fn(Net, A),
}

impl<A> Clone for Kernel<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Kernel<A> {}

impl<A> Kernel<A> {
    /// For [`kernels!`](crate::kernels).
    #[doc(hidden)]
    pub const fn new(module: &'static str, name: &'static str, entry: fn(Net, A)) -> Self {
        Self { module, name, entry }
    }

    /// The crate it was declared in, as the PTX module is named.
    pub const fn module(&self) -> &'static str {
        self.module
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What one emulated thread runs.
    pub const fn entry(&self) -> fn(Net, A) {
        self.entry
    }
}

/// Types that a kernel takes by value.
///
/// # Safety
/// The same layout for the host and for nvptx64 (`#[repr(C)]` of such types), and no reference
/// inside: a pointer that the CPU may follow is not one that the GPU may. Declare structs with
/// [`kernel_arg!`](crate::kernel_arg), which checks the fields.
#[allow(unsafe_code, reason = "an unsafe trait")]
pub unsafe trait KernelArg: Copy + Send + Sync + 'static {
    /// Calls `each` with every socket inside: the host closes listeners that no kernel serves any
    /// more.
    #[cfg(not(target_arch = "nvptx64"))]
    fn sockets(&self, each: &mut dyn FnMut(Handle)) {
        let _ = each;
    }
}

macro_rules! arguments {
    ($($t:ty),*) => { $(
        // SAFETY: scalars and repr(C) structs of them.
        #[allow(unsafe_code, reason = "an unsafe trait")]
        unsafe impl KernelArg for $t {}
    )* };
}
arguments!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, SocketAddr);

// SAFETY: a number.
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl KernelArg for Handle {
    #[cfg(not(target_arch = "nvptx64"))]
    fn sockets(&self, each: &mut dyn FnMut(Handle)) {
        each(*self);
    }
}

// SAFETY: an address and a length.
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl<T: Copy + Send + 'static> KernelArg for Shared<T> {}

/// The arguments of a kernel behind its net, as a tuple.
pub trait KernelArgs: Copy + Send + Sync + 'static {
    /// Calls `each` with the address and size of every argument, in order.
    fn each(&self, each: &mut dyn FnMut(*const u8, usize));

    /// Calls `each` with every socket among the arguments.
    #[cfg(not(target_arch = "nvptx64"))]
    fn sockets(&self, each: &mut dyn FnMut(Handle));
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => { $(
        impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn each(&self, each: &mut dyn FnMut(*const u8, usize)) {
                let ($($name,)*) = self;
                $(each(core::ptr::from_ref($name).cast(), size_of::<$name>());)*
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(non_snake_case, unused_variables)]
            fn sockets(&self, each: &mut dyn FnMut(Handle)) {
                let ($($name,)*) = self;
                $($name.sockets(each);)*
            }
        }
    )* };
}
tuples! { ; A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F H; A B C D E F H I; }

/// What a launch takes for a kernel's argument of type `T`: a `T`, a [`BoundArg`] of one, or a
/// buffer in GPU memory of the host crate, which the kernel gets as a [`Shared`].
///
/// # Safety
/// Memory that the result names is handed to [`Launching::keep`], or is valid for kernels by the
/// promise of whoever made the value ([`Shared::from_raw`]).
#[cfg(not(target_arch = "nvptx64"))]
#[allow(unsafe_code, reason = "an unsafe trait")]
pub unsafe trait LaunchArg<T> {
    /// The kernel's argument.
    fn resolve(self, launching: &mut Launching) -> T;
}

/// A launch whose arguments are being put together, with the memory that they name.
///
/// Only with one of these does a buffer give its address away: host code that had a [`Shared`] of
/// GPU memory could read through it, or launch a kernel after the memory is gone.
#[cfg(not(target_arch = "nvptx64"))]
pub struct Launching {
    kept: Vec<Memory>,
}

/// Memory that an argument names, of a type that the host crate knows.
#[cfg(not(target_arch = "nvptx64"))]
pub type Memory = Arc<dyn Any + Send + Sync>;

#[cfg(not(target_arch = "nvptx64"))]
impl Launching {
    /// For the host crate and for [`kernel_arg!`](crate::kernel_arg).
    ///
    /// # Safety
    /// What is resolved with it goes to a kernel and to nothing else, and what it keeps lives until
    /// that kernel has ended.
    #[doc(hidden)]
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub const unsafe fn new() -> Self {
        Self { kept: Vec::new() }
    }

    /// Keeps memory as long as the kernel runs.
    pub fn keep(&mut self, memory: Memory) {
        self.kept.push(memory);
    }

    /// What it keeps.
    #[must_use]
    pub fn into_kept(self) -> Vec<Memory> {
        self.kept
    }
}

// SAFETY: its maker's promise, if it names memory.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl<T: KernelArg> LaunchArg<T> for T {
    fn resolve(self, _launching: &mut Launching) -> T {
        self
    }
}

/// A struct of [`kernel_arg!`](crate::kernel_arg) for launches, with the buffers that its fields
/// name; made by its function `launch_arg`.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone)]
pub struct BoundArg<T> {
    value: T,
    kept: Vec<Memory>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T: KernelArg> BoundArg<T> {
    /// For [`kernel_arg!`](crate::kernel_arg).
    ///
    /// # Safety
    /// `make` puts what it resolves into the value and nowhere else.
    #[doc(hidden)]
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn new(make: impl FnOnce(&mut Launching) -> T) -> Self {
        // SAFETY: the value is private until a launch resolves it, which then keeps the same.
        let mut launching = unsafe { Launching::new() };
        let value = make(&mut launching);
        Self { value, kept: launching.kept }
    }
}

// SAFETY: all that the fields name is kept.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl<T: KernelArg> LaunchArg<T> for BoundArg<T> {
    fn resolve(self, launching: &mut Launching) -> T {
        launching.kept.extend(self.kept);
        self.value
    }
}

// SAFETY: as above.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl<T: KernelArg> LaunchArg<T> for &BoundArg<T> {
    fn resolve(self, launching: &mut Launching) -> T {
        self.clone().resolve(launching)
    }
}

/// A tuple of [`LaunchArg`]s for the [`KernelArgs`] `A`.
///
/// # Safety
/// What is resolved goes to the launch alone: an address that is kept would outlive its memory.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(unsafe_code, reason = "an unsafe trait")]
pub unsafe trait LaunchArgs<A> {
    /// The kernel's arguments.
    fn resolve(self, launching: &mut Launching) -> A;
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! launch_tuples {
    ($($($name:ident $given:ident)*;)*) => { $(
        // SAFETY: the tuple of what is resolved, and nothing else.
        #[allow(unsafe_code, reason = "an unsafe trait")]
        unsafe impl<$($name, $given: LaunchArg<$name>),*> LaunchArgs<($($name,)*)>
            for ($($given,)*)
        {
            #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
            fn resolve(self, launching: &mut Launching) -> ($($name,)*) {
                let ($($given,)*) = self;
                ($($given.resolve(launching),)*)
            }
        }
    )* };
}
#[cfg(not(target_arch = "nvptx64"))]
launch_tuples! {
    ; A GA; A GA B GB; A GA B GB C GC; A GA B GB C GC D GD; A GA B GB C GC D GD E GE;
    A GA B GB C GC D GD E GE F GF; A GA B GB C GC D GD E GE F GF H GH;
    A GA B GB C GC D GD E GE F GF H GH I GI;
}

/// Fails to compile for types that no kernel may take.
#[doc(hidden)]
pub const fn assert_kernel_arg<T: KernelArg>() {}

/// Declares kernels. The first argument is the net; the others are [`KernelArg`]s.
///
/// For a GPU each becomes an entry of the PTX module; for the host a [`Kernel`] constant of the
/// same name, which the host crate launches by name on either GPU.
///
/// ```
/// gpunet_device::kernels! {
///     /// Connects, says hello and leaves.
///     pub fn hello(net: Net, server: gpunet_device::SocketAddr) {
///         if let Ok(stream) = gpunet_device::Stream::connect(net.block(), &server) {
///             let _ = stream.write_all(b"hello".as_slice());
///         }
///     }
/// }
/// assert_eq!(hello.name(), "hello");
/// ```
#[macro_export]
macro_rules! kernels {
    ($($(#[$meta:meta])* pub fn $name:ident($net:ident: Net $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => { $(
        $(const _: () = $crate::kernel::assert_kernel_arg::<$ty>();)*

        #[cfg(target_arch = "nvptx64")]
        $(#[$meta])*
        #[allow(unsafe_code, improper_ctypes_definitions)]
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($net: $crate::Net, $($arg: $ty),*) {
            $body
        }

        #[cfg(not(target_arch = "nvptx64"))]
        $(#[$meta])*
        #[allow(non_upper_case_globals)]
        pub const $name: $crate::Kernel<($($ty,)*)> = {
            fn entry($net: $crate::Net, ($($arg,)*): ($($ty,)*)) $body
            $crate::Kernel::new(env!("CARGO_CRATE_NAME"), stringify!($name), entry)
        };
    )* };
}

/// Declares a struct that kernels take by value: `#[repr(C)]`, `Copy`, all fields [`KernelArg`]s.
///
/// ```
/// gpunet_device::kernel_arg! {
///     /// How much work there is.
///     pub struct Work {
///         /// Messages.
///         pub messages: u32,
///         /// Bytes of each.
///         pub bytes: u32,
///     }
/// }
/// ```
///
/// Where a field is a [`Shared`](crate::Shared) and the program has a buffer for it, `launch_arg`
/// takes the fields in their order, the buffer by reference, and gives what a launch takes.
///
/// ```
/// gpunet_device::kernel_arg! {
///     /// A table and how to hash.
///     pub struct Table {
///         /// Its entries.
///         pub entries: gpunet_device::Shared<u64>,
///         /// Mixed into hashes.
///         pub seed: u64,
///     }
/// }
/// // With a buffer of the host crate: Table::launch_arg(&buffer, 7).
/// let table = Table::launch_arg(gpunet_device::Shared::EMPTY, 7);
/// # let _ = table;
/// ```
#[macro_export]
macro_rules! kernel_arg {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name { $($(#[$field_meta])* pub $field: $ty),* }

        $(const _: () = $crate::kernel::assert_kernel_arg::<$ty>();)*
        // SAFETY: repr(C), and every field is a KernelArg.
        #[allow(unsafe_code)]
        unsafe impl $crate::KernelArg for $name {
            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(unused_variables)]
            fn sockets(&self, each: &mut dyn FnMut($crate::Handle)) {
                $($crate::KernelArg::sockets(&self.$field, each);)*
            }
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl $name {
            /// For a launch: the fields in their order, buffers in GPU memory for those that are
            /// `Shared`.
            #[allow(unsafe_code, unused_variables, clippy::too_many_arguments)]
            pub fn launch_arg(
                $($field: impl $crate::kernel::LaunchArg<$ty>),*
            ) -> $crate::kernel::BoundArg<Self> {
                // SAFETY: all that is resolved goes into the struct.
                unsafe {
                    $crate::kernel::BoundArg::new(|launching| Self {
                        $($field: $crate::kernel::LaunchArg::resolve($field, launching)),*
                    })
                }
            }
        }
    };
}
