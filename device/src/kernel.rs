//! Declaring kernels: once, in one place, for both GPUs.

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
pub unsafe trait KernelArg: Copy + Send + Sync + 'static {}

macro_rules! arguments {
    ($($t:ty),*) => { $(
        // SAFETY: scalars and repr(C) structs of them.
        #[allow(unsafe_code, reason = "an unsafe trait")]
        unsafe impl KernelArg for $t {}
    )* };
}
arguments!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, Handle, SocketAddr);

// SAFETY: an address and a length.
#[allow(unsafe_code, reason = "an unsafe trait")]
unsafe impl<T: Copy + Send + 'static> KernelArg for Shared<T> {}

/// The arguments of a kernel behind its net, as a tuple.
pub trait KernelArgs: Copy + Send + Sync + 'static {
    /// Calls `each` with the address and size of every argument, in order.
    fn each(&self, each: &mut dyn FnMut(*const u8, usize));
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => { $(
        impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn each(&self, each: &mut dyn FnMut(*const u8, usize)) {
                let ($($name,)*) = self;
                $(each(core::ptr::from_ref($name).cast(), size_of::<$name>());)*
            }
        }
    )* };
}
tuples! { ; A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F H; A B C D E F H I; }

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
        unsafe impl $crate::KernelArg for $name {}
    };
}
