//! The functions of librdmacm: the connection manager, and stock rsocket.
//!
//! Written by `cargo xtask bindings` from the headers of rdma-core 44.x: not to be changed by hand.

use super::types::*;
use libc::{fd_set, iovec, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, timeval};

pub struct Rdmacm {
    __library: ::libloading::Library,
    pub rdma_create_event_channel:
        Result<unsafe extern "C" fn() -> *mut rdma_event_channel, ::libloading::Error>,
    pub rdma_destroy_event_channel:
        Result<unsafe extern "C" fn(channel: *mut rdma_event_channel), ::libloading::Error>,
    pub rdma_create_id: Result<
        unsafe extern "C" fn(
            channel: *mut rdma_event_channel,
            id: *mut *mut rdma_cm_id,
            context: *mut ::core::ffi::c_void,
            ps: rdma_port_space,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_create_ep: Result<
        unsafe extern "C" fn(
            id: *mut *mut rdma_cm_id,
            res: *mut rdma_addrinfo,
            pd: *mut ibv_pd,
            qp_init_attr: *mut ibv_qp_init_attr,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_destroy_ep: Result<unsafe extern "C" fn(id: *mut rdma_cm_id), ::libloading::Error>,
    pub rdma_destroy_id: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_bind_addr: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id, addr: *mut sockaddr) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_resolve_addr: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            src_addr: *mut sockaddr,
            dst_addr: *mut sockaddr,
            timeout_ms: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_resolve_route: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            timeout_ms: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_create_qp: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            pd: *mut ibv_pd,
            qp_init_attr: *mut ibv_qp_init_attr,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_create_qp_ex: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            qp_init_attr: *mut ibv_qp_init_attr_ex,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_destroy_qp: Result<unsafe extern "C" fn(id: *mut rdma_cm_id), ::libloading::Error>,
    pub rdma_connect: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            conn_param: *mut rdma_conn_param,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_establish: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_listen: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            backlog: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_get_request: Result<
        unsafe extern "C" fn(
            listen: *mut rdma_cm_id,
            id: *mut *mut rdma_cm_id,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_accept: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            conn_param: *mut rdma_conn_param,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_reject: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            private_data: *const ::core::ffi::c_void,
            private_data_len: u8,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_reject_ece: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            private_data: *const ::core::ffi::c_void,
            private_data_len: u8,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_notify: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id, event: ibv_event_type) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_disconnect: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_join_multicast: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            addr: *mut sockaddr,
            context: *mut ::core::ffi::c_void,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_leave_multicast: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id, addr: *mut sockaddr) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_join_multicast_ex: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            mc_join_attr: *mut rdma_cm_join_mc_attr_ex,
            context: *mut ::core::ffi::c_void,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_get_cm_event: Result<
        unsafe extern "C" fn(
            channel: *mut rdma_event_channel,
            event: *mut *mut rdma_cm_event,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_ack_cm_event: Result<
        unsafe extern "C" fn(event: *mut rdma_cm_event) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_get_src_port:
        Result<unsafe extern "C" fn(id: *mut rdma_cm_id) -> __be16, ::libloading::Error>,
    pub rdma_get_dst_port:
        Result<unsafe extern "C" fn(id: *mut rdma_cm_id) -> __be16, ::libloading::Error>,
    pub rdma_get_devices: Result<
        unsafe extern "C" fn(num_devices: *mut ::core::ffi::c_int) -> *mut *mut ibv_context,
        ::libloading::Error,
    >,
    pub rdma_free_devices:
        Result<unsafe extern "C" fn(list: *mut *mut ibv_context), ::libloading::Error>,
    pub rdma_event_str: Result<
        unsafe extern "C" fn(event: rdma_cm_event_type) -> *const ::core::ffi::c_char,
        ::libloading::Error,
    >,
    pub rdma_set_option: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            level: ::core::ffi::c_int,
            optname: ::core::ffi::c_int,
            optval: *mut ::core::ffi::c_void,
            optlen: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_migrate_id: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            channel: *mut rdma_event_channel,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_getaddrinfo: Result<
        unsafe extern "C" fn(
            node: *const ::core::ffi::c_char,
            service: *const ::core::ffi::c_char,
            hints: *const rdma_addrinfo,
            res: *mut *mut rdma_addrinfo,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_freeaddrinfo:
        Result<unsafe extern "C" fn(res: *mut rdma_addrinfo), ::libloading::Error>,
    pub rdma_init_qp_attr: Result<
        unsafe extern "C" fn(
            id: *mut rdma_cm_id,
            qp_attr: *mut ibv_qp_attr,
            qp_attr_mask: *mut ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_set_local_ece: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rdma_get_remote_ece: Result<
        unsafe extern "C" fn(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rsocket: Result<
        unsafe extern "C" fn(
            domain: ::core::ffi::c_int,
            type_: ::core::ffi::c_int,
            protocol: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rbind: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            addr: *const sockaddr,
            addrlen: socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rlisten: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            backlog: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub raccept: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            addr: *mut sockaddr,
            addrlen: *mut socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rconnect: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            addr: *const sockaddr,
            addrlen: socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rshutdown: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            how: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rclose: Result<
        unsafe extern "C" fn(socket: ::core::ffi::c_int) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rrecv: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *mut ::core::ffi::c_void,
            len: usize,
            flags: ::core::ffi::c_int,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rrecvfrom: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *mut ::core::ffi::c_void,
            len: usize,
            flags: ::core::ffi::c_int,
            src_addr: *mut sockaddr,
            addrlen: *mut socklen_t,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rrecvmsg: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            msg: *mut msghdr,
            flags: ::core::ffi::c_int,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rsend: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *const ::core::ffi::c_void,
            len: usize,
            flags: ::core::ffi::c_int,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rsendto: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *const ::core::ffi::c_void,
            len: usize,
            flags: ::core::ffi::c_int,
            dest_addr: *const sockaddr,
            addrlen: socklen_t,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rsendmsg: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            msg: *const msghdr,
            flags: ::core::ffi::c_int,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rread: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *mut ::core::ffi::c_void,
            count: usize,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rreadv: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            iov: *const iovec,
            iovcnt: ::core::ffi::c_int,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rwrite: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *const ::core::ffi::c_void,
            count: usize,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rwritev: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            iov: *const iovec,
            iovcnt: ::core::ffi::c_int,
        ) -> isize,
        ::libloading::Error,
    >,
    pub rpoll: Result<
        unsafe extern "C" fn(
            fds: *mut pollfd,
            nfds: nfds_t,
            timeout: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rselect: Result<
        unsafe extern "C" fn(
            nfds: ::core::ffi::c_int,
            readfds: *mut fd_set,
            writefds: *mut fd_set,
            exceptfds: *mut fd_set,
            timeout: *mut timeval,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rgetpeername: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            addr: *mut sockaddr,
            addrlen: *mut socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rgetsockname: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            addr: *mut sockaddr,
            addrlen: *mut socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rsetsockopt: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            level: ::core::ffi::c_int,
            optname: ::core::ffi::c_int,
            optval: *const ::core::ffi::c_void,
            optlen: socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rgetsockopt: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            level: ::core::ffi::c_int,
            optname: ::core::ffi::c_int,
            optval: *mut ::core::ffi::c_void,
            optlen: *mut socklen_t,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub rfcntl: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            cmd: ::core::ffi::c_int,
            ...
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub riomap: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *mut ::core::ffi::c_void,
            len: usize,
            prot: ::core::ffi::c_int,
            flags: ::core::ffi::c_int,
            offset: off_t,
        ) -> off_t,
        ::libloading::Error,
    >,
    pub riounmap: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *mut ::core::ffi::c_void,
            len: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub riowrite: Result<
        unsafe extern "C" fn(
            socket: ::core::ffi::c_int,
            buf: *const ::core::ffi::c_void,
            count: usize,
            offset: off_t,
            flags: ::core::ffi::c_int,
        ) -> usize,
        ::libloading::Error,
    >,
}
impl Rdmacm {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: ::libloading::AsFilename,
    {
        let library = unsafe { ::libloading::Library::new(path) }?;
        unsafe { Self::from_library(library) }
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let rdma_create_event_channel =
            unsafe { __library.get(b"rdma_create_event_channel\0") }.map(|sym| *sym);
        let rdma_destroy_event_channel =
            unsafe { __library.get(b"rdma_destroy_event_channel\0") }.map(|sym| *sym);
        let rdma_create_id = unsafe { __library.get(b"rdma_create_id\0") }.map(|sym| *sym);
        let rdma_create_ep = unsafe { __library.get(b"rdma_create_ep\0") }.map(|sym| *sym);
        let rdma_destroy_ep = unsafe { __library.get(b"rdma_destroy_ep\0") }.map(|sym| *sym);
        let rdma_destroy_id = unsafe { __library.get(b"rdma_destroy_id\0") }.map(|sym| *sym);
        let rdma_bind_addr = unsafe { __library.get(b"rdma_bind_addr\0") }.map(|sym| *sym);
        let rdma_resolve_addr = unsafe { __library.get(b"rdma_resolve_addr\0") }.map(|sym| *sym);
        let rdma_resolve_route = unsafe { __library.get(b"rdma_resolve_route\0") }.map(|sym| *sym);
        let rdma_create_qp = unsafe { __library.get(b"rdma_create_qp\0") }.map(|sym| *sym);
        let rdma_create_qp_ex = unsafe { __library.get(b"rdma_create_qp_ex\0") }.map(|sym| *sym);
        let rdma_destroy_qp = unsafe { __library.get(b"rdma_destroy_qp\0") }.map(|sym| *sym);
        let rdma_connect = unsafe { __library.get(b"rdma_connect\0") }.map(|sym| *sym);
        let rdma_establish = unsafe { __library.get(b"rdma_establish\0") }.map(|sym| *sym);
        let rdma_listen = unsafe { __library.get(b"rdma_listen\0") }.map(|sym| *sym);
        let rdma_get_request = unsafe { __library.get(b"rdma_get_request\0") }.map(|sym| *sym);
        let rdma_accept = unsafe { __library.get(b"rdma_accept\0") }.map(|sym| *sym);
        let rdma_reject = unsafe { __library.get(b"rdma_reject\0") }.map(|sym| *sym);
        let rdma_reject_ece = unsafe { __library.get(b"rdma_reject_ece\0") }.map(|sym| *sym);
        let rdma_notify = unsafe { __library.get(b"rdma_notify\0") }.map(|sym| *sym);
        let rdma_disconnect = unsafe { __library.get(b"rdma_disconnect\0") }.map(|sym| *sym);
        let rdma_join_multicast =
            unsafe { __library.get(b"rdma_join_multicast\0") }.map(|sym| *sym);
        let rdma_leave_multicast =
            unsafe { __library.get(b"rdma_leave_multicast\0") }.map(|sym| *sym);
        let rdma_join_multicast_ex =
            unsafe { __library.get(b"rdma_join_multicast_ex\0") }.map(|sym| *sym);
        let rdma_get_cm_event = unsafe { __library.get(b"rdma_get_cm_event\0") }.map(|sym| *sym);
        let rdma_ack_cm_event = unsafe { __library.get(b"rdma_ack_cm_event\0") }.map(|sym| *sym);
        let rdma_get_src_port = unsafe { __library.get(b"rdma_get_src_port\0") }.map(|sym| *sym);
        let rdma_get_dst_port = unsafe { __library.get(b"rdma_get_dst_port\0") }.map(|sym| *sym);
        let rdma_get_devices = unsafe { __library.get(b"rdma_get_devices\0") }.map(|sym| *sym);
        let rdma_free_devices = unsafe { __library.get(b"rdma_free_devices\0") }.map(|sym| *sym);
        let rdma_event_str = unsafe { __library.get(b"rdma_event_str\0") }.map(|sym| *sym);
        let rdma_set_option = unsafe { __library.get(b"rdma_set_option\0") }.map(|sym| *sym);
        let rdma_migrate_id = unsafe { __library.get(b"rdma_migrate_id\0") }.map(|sym| *sym);
        let rdma_getaddrinfo = unsafe { __library.get(b"rdma_getaddrinfo\0") }.map(|sym| *sym);
        let rdma_freeaddrinfo = unsafe { __library.get(b"rdma_freeaddrinfo\0") }.map(|sym| *sym);
        let rdma_init_qp_attr = unsafe { __library.get(b"rdma_init_qp_attr\0") }.map(|sym| *sym);
        let rdma_set_local_ece = unsafe { __library.get(b"rdma_set_local_ece\0") }.map(|sym| *sym);
        let rdma_get_remote_ece =
            unsafe { __library.get(b"rdma_get_remote_ece\0") }.map(|sym| *sym);
        let rsocket = unsafe { __library.get(b"rsocket\0") }.map(|sym| *sym);
        let rbind = unsafe { __library.get(b"rbind\0") }.map(|sym| *sym);
        let rlisten = unsafe { __library.get(b"rlisten\0") }.map(|sym| *sym);
        let raccept = unsafe { __library.get(b"raccept\0") }.map(|sym| *sym);
        let rconnect = unsafe { __library.get(b"rconnect\0") }.map(|sym| *sym);
        let rshutdown = unsafe { __library.get(b"rshutdown\0") }.map(|sym| *sym);
        let rclose = unsafe { __library.get(b"rclose\0") }.map(|sym| *sym);
        let rrecv = unsafe { __library.get(b"rrecv\0") }.map(|sym| *sym);
        let rrecvfrom = unsafe { __library.get(b"rrecvfrom\0") }.map(|sym| *sym);
        let rrecvmsg = unsafe { __library.get(b"rrecvmsg\0") }.map(|sym| *sym);
        let rsend = unsafe { __library.get(b"rsend\0") }.map(|sym| *sym);
        let rsendto = unsafe { __library.get(b"rsendto\0") }.map(|sym| *sym);
        let rsendmsg = unsafe { __library.get(b"rsendmsg\0") }.map(|sym| *sym);
        let rread = unsafe { __library.get(b"rread\0") }.map(|sym| *sym);
        let rreadv = unsafe { __library.get(b"rreadv\0") }.map(|sym| *sym);
        let rwrite = unsafe { __library.get(b"rwrite\0") }.map(|sym| *sym);
        let rwritev = unsafe { __library.get(b"rwritev\0") }.map(|sym| *sym);
        let rpoll = unsafe { __library.get(b"rpoll\0") }.map(|sym| *sym);
        let rselect = unsafe { __library.get(b"rselect\0") }.map(|sym| *sym);
        let rgetpeername = unsafe { __library.get(b"rgetpeername\0") }.map(|sym| *sym);
        let rgetsockname = unsafe { __library.get(b"rgetsockname\0") }.map(|sym| *sym);
        let rsetsockopt = unsafe { __library.get(b"rsetsockopt\0") }.map(|sym| *sym);
        let rgetsockopt = unsafe { __library.get(b"rgetsockopt\0") }.map(|sym| *sym);
        let rfcntl = unsafe { __library.get(b"rfcntl\0") }.map(|sym| *sym);
        let riomap = unsafe { __library.get(b"riomap\0") }.map(|sym| *sym);
        let riounmap = unsafe { __library.get(b"riounmap\0") }.map(|sym| *sym);
        let riowrite = unsafe { __library.get(b"riowrite\0") }.map(|sym| *sym);
        Ok(Rdmacm {
            __library,
            rdma_create_event_channel,
            rdma_destroy_event_channel,
            rdma_create_id,
            rdma_create_ep,
            rdma_destroy_ep,
            rdma_destroy_id,
            rdma_bind_addr,
            rdma_resolve_addr,
            rdma_resolve_route,
            rdma_create_qp,
            rdma_create_qp_ex,
            rdma_destroy_qp,
            rdma_connect,
            rdma_establish,
            rdma_listen,
            rdma_get_request,
            rdma_accept,
            rdma_reject,
            rdma_reject_ece,
            rdma_notify,
            rdma_disconnect,
            rdma_join_multicast,
            rdma_leave_multicast,
            rdma_join_multicast_ex,
            rdma_get_cm_event,
            rdma_ack_cm_event,
            rdma_get_src_port,
            rdma_get_dst_port,
            rdma_get_devices,
            rdma_free_devices,
            rdma_event_str,
            rdma_set_option,
            rdma_migrate_id,
            rdma_getaddrinfo,
            rdma_freeaddrinfo,
            rdma_init_qp_attr,
            rdma_set_local_ece,
            rdma_get_remote_ece,
            rsocket,
            rbind,
            rlisten,
            raccept,
            rconnect,
            rshutdown,
            rclose,
            rrecv,
            rrecvfrom,
            rrecvmsg,
            rsend,
            rsendto,
            rsendmsg,
            rread,
            rreadv,
            rwrite,
            rwritev,
            rpoll,
            rselect,
            rgetpeername,
            rgetsockname,
            rsetsockopt,
            rgetsockopt,
            rfcntl,
            riomap,
            riounmap,
            riowrite,
        })
    }
    pub unsafe fn rdma_create_event_channel(&self) -> *mut rdma_event_channel {
        unsafe {
            (self.rdma_create_event_channel.as_ref().expect("Expected function, got error."))()
        }
    }
    pub unsafe fn rdma_destroy_event_channel(&self, channel: *mut rdma_event_channel) {
        unsafe {
            (self.rdma_destroy_event_channel.as_ref().expect("Expected function, got error."))(
                channel,
            )
        }
    }
    pub unsafe fn rdma_create_id(
        &self,
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut ::core::ffi::c_void,
        ps: rdma_port_space,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_create_id.as_ref().expect("Expected function, got error."))(
                channel, id, context, ps,
            )
        }
    }
    pub unsafe fn rdma_create_ep(
        &self,
        id: *mut *mut rdma_cm_id,
        res: *mut rdma_addrinfo,
        pd: *mut ibv_pd,
        qp_init_attr: *mut ibv_qp_init_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_create_ep.as_ref().expect("Expected function, got error."))(
                id,
                res,
                pd,
                qp_init_attr,
            )
        }
    }
    pub unsafe fn rdma_destroy_ep(&self, id: *mut rdma_cm_id) {
        unsafe { (self.rdma_destroy_ep.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_destroy_id(&self, id: *mut rdma_cm_id) -> ::core::ffi::c_int {
        unsafe { (self.rdma_destroy_id.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_bind_addr(
        &self,
        id: *mut rdma_cm_id,
        addr: *mut sockaddr,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_bind_addr.as_ref().expect("Expected function, got error."))(id, addr) }
    }
    pub unsafe fn rdma_resolve_addr(
        &self,
        id: *mut rdma_cm_id,
        src_addr: *mut sockaddr,
        dst_addr: *mut sockaddr,
        timeout_ms: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_resolve_addr.as_ref().expect("Expected function, got error."))(
                id, src_addr, dst_addr, timeout_ms,
            )
        }
    }
    pub unsafe fn rdma_resolve_route(
        &self,
        id: *mut rdma_cm_id,
        timeout_ms: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_resolve_route.as_ref().expect("Expected function, got error."))(
                id, timeout_ms,
            )
        }
    }
    pub unsafe fn rdma_create_qp(
        &self,
        id: *mut rdma_cm_id,
        pd: *mut ibv_pd,
        qp_init_attr: *mut ibv_qp_init_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_create_qp.as_ref().expect("Expected function, got error."))(
                id,
                pd,
                qp_init_attr,
            )
        }
    }
    pub unsafe fn rdma_create_qp_ex(
        &self,
        id: *mut rdma_cm_id,
        qp_init_attr: *mut ibv_qp_init_attr_ex,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_create_qp_ex.as_ref().expect("Expected function, got error."))(
                id,
                qp_init_attr,
            )
        }
    }
    pub unsafe fn rdma_destroy_qp(&self, id: *mut rdma_cm_id) {
        unsafe { (self.rdma_destroy_qp.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_connect(
        &self,
        id: *mut rdma_cm_id,
        conn_param: *mut rdma_conn_param,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_connect.as_ref().expect("Expected function, got error."))(id, conn_param)
        }
    }
    pub unsafe fn rdma_establish(&self, id: *mut rdma_cm_id) -> ::core::ffi::c_int {
        unsafe { (self.rdma_establish.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_listen(
        &self,
        id: *mut rdma_cm_id,
        backlog: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_listen.as_ref().expect("Expected function, got error."))(id, backlog) }
    }
    pub unsafe fn rdma_get_request(
        &self,
        listen: *mut rdma_cm_id,
        id: *mut *mut rdma_cm_id,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_get_request.as_ref().expect("Expected function, got error."))(listen, id)
        }
    }
    pub unsafe fn rdma_accept(
        &self,
        id: *mut rdma_cm_id,
        conn_param: *mut rdma_conn_param,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_accept.as_ref().expect("Expected function, got error."))(id, conn_param)
        }
    }
    pub unsafe fn rdma_reject(
        &self,
        id: *mut rdma_cm_id,
        private_data: *const ::core::ffi::c_void,
        private_data_len: u8,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_reject.as_ref().expect("Expected function, got error."))(
                id,
                private_data,
                private_data_len,
            )
        }
    }
    pub unsafe fn rdma_reject_ece(
        &self,
        id: *mut rdma_cm_id,
        private_data: *const ::core::ffi::c_void,
        private_data_len: u8,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_reject_ece.as_ref().expect("Expected function, got error."))(
                id,
                private_data,
                private_data_len,
            )
        }
    }
    pub unsafe fn rdma_notify(
        &self,
        id: *mut rdma_cm_id,
        event: ibv_event_type,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_notify.as_ref().expect("Expected function, got error."))(id, event) }
    }
    pub unsafe fn rdma_disconnect(&self, id: *mut rdma_cm_id) -> ::core::ffi::c_int {
        unsafe { (self.rdma_disconnect.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_join_multicast(
        &self,
        id: *mut rdma_cm_id,
        addr: *mut sockaddr,
        context: *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_join_multicast.as_ref().expect("Expected function, got error."))(
                id, addr, context,
            )
        }
    }
    pub unsafe fn rdma_leave_multicast(
        &self,
        id: *mut rdma_cm_id,
        addr: *mut sockaddr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_leave_multicast.as_ref().expect("Expected function, got error."))(id, addr)
        }
    }
    pub unsafe fn rdma_join_multicast_ex(
        &self,
        id: *mut rdma_cm_id,
        mc_join_attr: *mut rdma_cm_join_mc_attr_ex,
        context: *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_join_multicast_ex.as_ref().expect("Expected function, got error."))(
                id,
                mc_join_attr,
                context,
            )
        }
    }
    pub unsafe fn rdma_get_cm_event(
        &self,
        channel: *mut rdma_event_channel,
        event: *mut *mut rdma_cm_event,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_get_cm_event.as_ref().expect("Expected function, got error."))(
                channel, event,
            )
        }
    }
    pub unsafe fn rdma_ack_cm_event(&self, event: *mut rdma_cm_event) -> ::core::ffi::c_int {
        unsafe { (self.rdma_ack_cm_event.as_ref().expect("Expected function, got error."))(event) }
    }
    pub unsafe fn rdma_get_src_port(&self, id: *mut rdma_cm_id) -> __be16 {
        unsafe { (self.rdma_get_src_port.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_get_dst_port(&self, id: *mut rdma_cm_id) -> __be16 {
        unsafe { (self.rdma_get_dst_port.as_ref().expect("Expected function, got error."))(id) }
    }
    pub unsafe fn rdma_get_devices(
        &self,
        num_devices: *mut ::core::ffi::c_int,
    ) -> *mut *mut ibv_context {
        unsafe {
            (self.rdma_get_devices.as_ref().expect("Expected function, got error."))(num_devices)
        }
    }
    pub unsafe fn rdma_free_devices(&self, list: *mut *mut ibv_context) {
        unsafe { (self.rdma_free_devices.as_ref().expect("Expected function, got error."))(list) }
    }
    pub unsafe fn rdma_event_str(&self, event: rdma_cm_event_type) -> *const ::core::ffi::c_char {
        unsafe { (self.rdma_event_str.as_ref().expect("Expected function, got error."))(event) }
    }
    pub unsafe fn rdma_set_option(
        &self,
        id: *mut rdma_cm_id,
        level: ::core::ffi::c_int,
        optname: ::core::ffi::c_int,
        optval: *mut ::core::ffi::c_void,
        optlen: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_set_option.as_ref().expect("Expected function, got error."))(
                id, level, optname, optval, optlen,
            )
        }
    }
    pub unsafe fn rdma_migrate_id(
        &self,
        id: *mut rdma_cm_id,
        channel: *mut rdma_event_channel,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_migrate_id.as_ref().expect("Expected function, got error."))(id, channel)
        }
    }
    pub unsafe fn rdma_getaddrinfo(
        &self,
        node: *const ::core::ffi::c_char,
        service: *const ::core::ffi::c_char,
        hints: *const rdma_addrinfo,
        res: *mut *mut rdma_addrinfo,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_getaddrinfo.as_ref().expect("Expected function, got error."))(
                node, service, hints, res,
            )
        }
    }
    pub unsafe fn rdma_freeaddrinfo(&self, res: *mut rdma_addrinfo) {
        unsafe { (self.rdma_freeaddrinfo.as_ref().expect("Expected function, got error."))(res) }
    }
    pub unsafe fn rdma_init_qp_attr(
        &self,
        id: *mut rdma_cm_id,
        qp_attr: *mut ibv_qp_attr,
        qp_attr_mask: *mut ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_init_qp_attr.as_ref().expect("Expected function, got error."))(
                id,
                qp_attr,
                qp_attr_mask,
            )
        }
    }
    pub unsafe fn rdma_set_local_ece(
        &self,
        id: *mut rdma_cm_id,
        ece: *mut ibv_ece,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_set_local_ece.as_ref().expect("Expected function, got error."))(id, ece)
        }
    }
    pub unsafe fn rdma_get_remote_ece(
        &self,
        id: *mut rdma_cm_id,
        ece: *mut ibv_ece,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rdma_get_remote_ece.as_ref().expect("Expected function, got error."))(id, ece)
        }
    }
    pub unsafe fn rsocket(
        &self,
        domain: ::core::ffi::c_int,
        type_: ::core::ffi::c_int,
        protocol: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rsocket.as_ref().expect("Expected function, got error."))(domain, type_, protocol)
        }
    }
    pub unsafe fn rbind(
        &self,
        socket: ::core::ffi::c_int,
        addr: *const sockaddr,
        addrlen: socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rbind.as_ref().expect("Expected function, got error."))(socket, addr, addrlen)
        }
    }
    pub unsafe fn rlisten(
        &self,
        socket: ::core::ffi::c_int,
        backlog: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rlisten.as_ref().expect("Expected function, got error."))(socket, backlog) }
    }
    pub unsafe fn raccept(
        &self,
        socket: ::core::ffi::c_int,
        addr: *mut sockaddr,
        addrlen: *mut socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.raccept.as_ref().expect("Expected function, got error."))(socket, addr, addrlen)
        }
    }
    pub unsafe fn rconnect(
        &self,
        socket: ::core::ffi::c_int,
        addr: *const sockaddr,
        addrlen: socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rconnect.as_ref().expect("Expected function, got error."))(socket, addr, addrlen)
        }
    }
    pub unsafe fn rshutdown(
        &self,
        socket: ::core::ffi::c_int,
        how: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rshutdown.as_ref().expect("Expected function, got error."))(socket, how) }
    }
    pub unsafe fn rclose(&self, socket: ::core::ffi::c_int) -> ::core::ffi::c_int {
        unsafe { (self.rclose.as_ref().expect("Expected function, got error."))(socket) }
    }
    pub unsafe fn rrecv(
        &self,
        socket: ::core::ffi::c_int,
        buf: *mut ::core::ffi::c_void,
        len: usize,
        flags: ::core::ffi::c_int,
    ) -> isize {
        unsafe {
            (self.rrecv.as_ref().expect("Expected function, got error."))(socket, buf, len, flags)
        }
    }
    pub unsafe fn rrecvfrom(
        &self,
        socket: ::core::ffi::c_int,
        buf: *mut ::core::ffi::c_void,
        len: usize,
        flags: ::core::ffi::c_int,
        src_addr: *mut sockaddr,
        addrlen: *mut socklen_t,
    ) -> isize {
        unsafe {
            (self.rrecvfrom.as_ref().expect("Expected function, got error."))(
                socket, buf, len, flags, src_addr, addrlen,
            )
        }
    }
    pub unsafe fn rrecvmsg(
        &self,
        socket: ::core::ffi::c_int,
        msg: *mut msghdr,
        flags: ::core::ffi::c_int,
    ) -> isize {
        unsafe {
            (self.rrecvmsg.as_ref().expect("Expected function, got error."))(socket, msg, flags)
        }
    }
    pub unsafe fn rsend(
        &self,
        socket: ::core::ffi::c_int,
        buf: *const ::core::ffi::c_void,
        len: usize,
        flags: ::core::ffi::c_int,
    ) -> isize {
        unsafe {
            (self.rsend.as_ref().expect("Expected function, got error."))(socket, buf, len, flags)
        }
    }
    pub unsafe fn rsendto(
        &self,
        socket: ::core::ffi::c_int,
        buf: *const ::core::ffi::c_void,
        len: usize,
        flags: ::core::ffi::c_int,
        dest_addr: *const sockaddr,
        addrlen: socklen_t,
    ) -> isize {
        unsafe {
            (self.rsendto.as_ref().expect("Expected function, got error."))(
                socket, buf, len, flags, dest_addr, addrlen,
            )
        }
    }
    pub unsafe fn rsendmsg(
        &self,
        socket: ::core::ffi::c_int,
        msg: *const msghdr,
        flags: ::core::ffi::c_int,
    ) -> isize {
        unsafe {
            (self.rsendmsg.as_ref().expect("Expected function, got error."))(socket, msg, flags)
        }
    }
    pub unsafe fn rread(
        &self,
        socket: ::core::ffi::c_int,
        buf: *mut ::core::ffi::c_void,
        count: usize,
    ) -> isize {
        unsafe { (self.rread.as_ref().expect("Expected function, got error."))(socket, buf, count) }
    }
    pub unsafe fn rreadv(
        &self,
        socket: ::core::ffi::c_int,
        iov: *const iovec,
        iovcnt: ::core::ffi::c_int,
    ) -> isize {
        unsafe {
            (self.rreadv.as_ref().expect("Expected function, got error."))(socket, iov, iovcnt)
        }
    }
    pub unsafe fn rwrite(
        &self,
        socket: ::core::ffi::c_int,
        buf: *const ::core::ffi::c_void,
        count: usize,
    ) -> isize {
        unsafe {
            (self.rwrite.as_ref().expect("Expected function, got error."))(socket, buf, count)
        }
    }
    pub unsafe fn rwritev(
        &self,
        socket: ::core::ffi::c_int,
        iov: *const iovec,
        iovcnt: ::core::ffi::c_int,
    ) -> isize {
        unsafe {
            (self.rwritev.as_ref().expect("Expected function, got error."))(socket, iov, iovcnt)
        }
    }
    pub unsafe fn rpoll(
        &self,
        fds: *mut pollfd,
        nfds: nfds_t,
        timeout: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rpoll.as_ref().expect("Expected function, got error."))(fds, nfds, timeout) }
    }
    pub unsafe fn rselect(
        &self,
        nfds: ::core::ffi::c_int,
        readfds: *mut fd_set,
        writefds: *mut fd_set,
        exceptfds: *mut fd_set,
        timeout: *mut timeval,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rselect.as_ref().expect("Expected function, got error."))(
                nfds, readfds, writefds, exceptfds, timeout,
            )
        }
    }
    pub unsafe fn rgetpeername(
        &self,
        socket: ::core::ffi::c_int,
        addr: *mut sockaddr,
        addrlen: *mut socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rgetpeername.as_ref().expect("Expected function, got error."))(
                socket, addr, addrlen,
            )
        }
    }
    pub unsafe fn rgetsockname(
        &self,
        socket: ::core::ffi::c_int,
        addr: *mut sockaddr,
        addrlen: *mut socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rgetsockname.as_ref().expect("Expected function, got error."))(
                socket, addr, addrlen,
            )
        }
    }
    pub unsafe fn rsetsockopt(
        &self,
        socket: ::core::ffi::c_int,
        level: ::core::ffi::c_int,
        optname: ::core::ffi::c_int,
        optval: *const ::core::ffi::c_void,
        optlen: socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rsetsockopt.as_ref().expect("Expected function, got error."))(
                socket, level, optname, optval, optlen,
            )
        }
    }
    pub unsafe fn rgetsockopt(
        &self,
        socket: ::core::ffi::c_int,
        level: ::core::ffi::c_int,
        optname: ::core::ffi::c_int,
        optval: *mut ::core::ffi::c_void,
        optlen: *mut socklen_t,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.rgetsockopt.as_ref().expect("Expected function, got error."))(
                socket, level, optname, optval, optlen,
            )
        }
    }
    pub unsafe fn riomap(
        &self,
        socket: ::core::ffi::c_int,
        buf: *mut ::core::ffi::c_void,
        len: usize,
        prot: ::core::ffi::c_int,
        flags: ::core::ffi::c_int,
        offset: off_t,
    ) -> off_t {
        unsafe {
            (self.riomap.as_ref().expect("Expected function, got error."))(
                socket, buf, len, prot, flags, offset,
            )
        }
    }
    pub unsafe fn riounmap(
        &self,
        socket: ::core::ffi::c_int,
        buf: *mut ::core::ffi::c_void,
        len: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.riounmap.as_ref().expect("Expected function, got error."))(socket, buf, len)
        }
    }
    pub unsafe fn riowrite(
        &self,
        socket: ::core::ffi::c_int,
        buf: *const ::core::ffi::c_void,
        count: usize,
        offset: off_t,
        flags: ::core::ffi::c_int,
    ) -> usize {
        unsafe {
            (self.riowrite.as_ref().expect("Expected function, got error."))(
                socket, buf, count, offset, flags,
            )
        }
    }
}
