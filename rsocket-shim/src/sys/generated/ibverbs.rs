//! The functions of libibverbs.
//!
//! Written by `cargo xtask bindings` from the headers of rdma-core 44.x: not to be changed by hand.

use super::types::*;

pub struct Ibverbs {
    __library: ::libloading::Library,
    pub ibv_wc_status_str: Result<
        unsafe extern "C" fn(status: ibv_wc_status) -> *const ::core::ffi::c_char,
        ::libloading::Error,
    >,
    pub ibv_rate_to_mult:
        Result<unsafe extern "C" fn(rate: ibv_rate) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_rate_to_mbps:
        Result<unsafe extern "C" fn(rate: ibv_rate) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_qp_to_qp_ex:
        Result<unsafe extern "C" fn(qp: *mut ibv_qp) -> *mut ibv_qp_ex, ::libloading::Error>,
    pub ibv_get_device_list: Result<
        unsafe extern "C" fn(num_devices: *mut ::core::ffi::c_int) -> *mut *mut ibv_device,
        ::libloading::Error,
    >,
    pub ibv_free_device_list:
        Result<unsafe extern "C" fn(list: *mut *mut ibv_device), ::libloading::Error>,
    pub ibv_get_device_name: Result<
        unsafe extern "C" fn(device: *mut ibv_device) -> *const ::core::ffi::c_char,
        ::libloading::Error,
    >,
    pub ibv_get_device_index: Result<
        unsafe extern "C" fn(device: *mut ibv_device) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_get_device_guid:
        Result<unsafe extern "C" fn(device: *mut ibv_device) -> __be64, ::libloading::Error>,
    pub ibv_open_device: Result<
        unsafe extern "C" fn(device: *mut ibv_device) -> *mut ibv_context,
        ::libloading::Error,
    >,
    pub ibv_close_device: Result<
        unsafe extern "C" fn(context: *mut ibv_context) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_import_device: Result<
        unsafe extern "C" fn(cmd_fd: ::core::ffi::c_int) -> *mut ibv_context,
        ::libloading::Error,
    >,
    pub ibv_import_pd: Result<
        unsafe extern "C" fn(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd,
        ::libloading::Error,
    >,
    pub ibv_unimport_pd: Result<unsafe extern "C" fn(pd: *mut ibv_pd), ::libloading::Error>,
    pub ibv_import_mr: Result<
        unsafe extern "C" fn(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr,
        ::libloading::Error,
    >,
    pub ibv_unimport_mr: Result<unsafe extern "C" fn(mr: *mut ibv_mr), ::libloading::Error>,
    pub ibv_import_dm: Result<
        unsafe extern "C" fn(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm,
        ::libloading::Error,
    >,
    pub ibv_unimport_dm: Result<unsafe extern "C" fn(dm: *mut ibv_dm), ::libloading::Error>,
    pub ibv_get_async_event: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            event: *mut ibv_async_event,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_ack_async_event:
        Result<unsafe extern "C" fn(event: *mut ibv_async_event), ::libloading::Error>,
    pub ibv_query_device: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            device_attr: *mut ibv_device_attr,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_port: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut _compat_ibv_port_attr,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_gid: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            index: ::core::ffi::c_int,
            gid: *mut ibv_gid,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_pkey: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            index: ::core::ffi::c_int,
            pkey: *mut __be16,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_get_pkey_index: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            pkey: __be16,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_alloc_pd:
        Result<unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_pd, ::libloading::Error>,
    pub ibv_dealloc_pd:
        Result<unsafe extern "C" fn(pd: *mut ibv_pd) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_reg_mr_iova2: Result<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            addr: *mut ::core::ffi::c_void,
            length: usize,
            iova: u64,
            access: ::core::ffi::c_uint,
        ) -> *mut ibv_mr,
        ::libloading::Error,
    >,
    pub ibv_reg_mr: Result<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            addr: *mut ::core::ffi::c_void,
            length: usize,
            access: ::core::ffi::c_int,
        ) -> *mut ibv_mr,
        ::libloading::Error,
    >,
    pub ibv_reg_mr_iova: Result<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            addr: *mut ::core::ffi::c_void,
            length: usize,
            iova: u64,
            access: ::core::ffi::c_int,
        ) -> *mut ibv_mr,
        ::libloading::Error,
    >,
    pub ibv_reg_dmabuf_mr: Result<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            offset: u64,
            length: usize,
            iova: u64,
            fd: ::core::ffi::c_int,
            access: ::core::ffi::c_int,
        ) -> *mut ibv_mr,
        ::libloading::Error,
    >,
    pub ibv_rereg_mr: Result<
        unsafe extern "C" fn(
            mr: *mut ibv_mr,
            flags: ::core::ffi::c_int,
            pd: *mut ibv_pd,
            addr: *mut ::core::ffi::c_void,
            length: usize,
            access: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_dereg_mr:
        Result<unsafe extern "C" fn(mr: *mut ibv_mr) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_create_comp_channel: Result<
        unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_comp_channel,
        ::libloading::Error,
    >,
    pub ibv_destroy_comp_channel: Result<
        unsafe extern "C" fn(channel: *mut ibv_comp_channel) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_create_cq: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            cqe: ::core::ffi::c_int,
            cq_context: *mut ::core::ffi::c_void,
            channel: *mut ibv_comp_channel,
            comp_vector: ::core::ffi::c_int,
        ) -> *mut ibv_cq,
        ::libloading::Error,
    >,
    pub ibv_resize_cq: Result<
        unsafe extern "C" fn(cq: *mut ibv_cq, cqe: ::core::ffi::c_int) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_destroy_cq:
        Result<unsafe extern "C" fn(cq: *mut ibv_cq) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_get_cq_event: Result<
        unsafe extern "C" fn(
            channel: *mut ibv_comp_channel,
            cq: *mut *mut ibv_cq,
            cq_context: *mut *mut ::core::ffi::c_void,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_ack_cq_events: Result<
        unsafe extern "C" fn(cq: *mut ibv_cq, nevents: ::core::ffi::c_uint),
        ::libloading::Error,
    >,
    pub ibv_create_srq: Result<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            srq_init_attr: *mut ibv_srq_init_attr,
        ) -> *mut ibv_srq,
        ::libloading::Error,
    >,
    pub ibv_modify_srq: Result<
        unsafe extern "C" fn(
            srq: *mut ibv_srq,
            srq_attr: *mut ibv_srq_attr,
            srq_attr_mask: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_srq: Result<
        unsafe extern "C" fn(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_destroy_srq:
        Result<unsafe extern "C" fn(srq: *mut ibv_srq) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_create_qp: Result<
        unsafe extern "C" fn(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp,
        ::libloading::Error,
    >,
    pub ibv_modify_qp: Result<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            attr: *mut ibv_qp_attr,
            attr_mask: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_qp_data_in_order: Result<
        unsafe extern "C" fn(qp: *mut ibv_qp, op: ibv_wr_opcode, flags: u32) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_qp: Result<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            attr: *mut ibv_qp_attr,
            attr_mask: ::core::ffi::c_int,
            init_attr: *mut ibv_qp_init_attr,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_destroy_qp:
        Result<unsafe extern "C" fn(qp: *mut ibv_qp) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_create_ah: Result<
        unsafe extern "C" fn(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah,
        ::libloading::Error,
    >,
    pub ibv_init_ah_from_wc: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            wc: *mut ibv_wc,
            grh: *mut ibv_grh,
            ah_attr: *mut ibv_ah_attr,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_create_ah_from_wc: Result<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            wc: *mut ibv_wc,
            grh: *mut ibv_grh,
            port_num: u8,
        ) -> *mut ibv_ah,
        ::libloading::Error,
    >,
    pub ibv_destroy_ah:
        Result<unsafe extern "C" fn(ah: *mut ibv_ah) -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_attach_mcast: Result<
        unsafe extern "C" fn(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_detach_mcast: Result<
        unsafe extern "C" fn(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_fork_init: Result<unsafe extern "C" fn() -> ::core::ffi::c_int, ::libloading::Error>,
    pub ibv_is_fork_initialized:
        Result<unsafe extern "C" fn() -> ibv_fork_status, ::libloading::Error>,
    pub ibv_node_type_str: Result<
        unsafe extern "C" fn(node_type: ibv_node_type) -> *const ::core::ffi::c_char,
        ::libloading::Error,
    >,
    pub ibv_port_state_str: Result<
        unsafe extern "C" fn(port_state: ibv_port_state) -> *const ::core::ffi::c_char,
        ::libloading::Error,
    >,
    pub ibv_event_type_str: Result<
        unsafe extern "C" fn(event: ibv_event_type) -> *const ::core::ffi::c_char,
        ::libloading::Error,
    >,
    pub ibv_resolve_eth_l2_from_gid: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            attr: *mut ibv_ah_attr,
            eth_mac: *mut u8,
            vid: *mut u16,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_set_ece: Result<
        unsafe extern "C" fn(qp: *mut ibv_qp, ece: *mut ibv_ece) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_ece: Result<
        unsafe extern "C" fn(qp: *mut ibv_qp, ece: *mut ibv_ece) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
}
impl Ibverbs {
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
        let ibv_wc_status_str = unsafe { __library.get(b"ibv_wc_status_str\0") }.map(|sym| *sym);
        let ibv_rate_to_mult = unsafe { __library.get(b"ibv_rate_to_mult\0") }.map(|sym| *sym);
        let ibv_rate_to_mbps = unsafe { __library.get(b"ibv_rate_to_mbps\0") }.map(|sym| *sym);
        let ibv_qp_to_qp_ex = unsafe { __library.get(b"ibv_qp_to_qp_ex\0") }.map(|sym| *sym);
        let ibv_get_device_list =
            unsafe { __library.get(b"ibv_get_device_list\0") }.map(|sym| *sym);
        let ibv_free_device_list =
            unsafe { __library.get(b"ibv_free_device_list\0") }.map(|sym| *sym);
        let ibv_get_device_name =
            unsafe { __library.get(b"ibv_get_device_name\0") }.map(|sym| *sym);
        let ibv_get_device_index =
            unsafe { __library.get(b"ibv_get_device_index\0") }.map(|sym| *sym);
        let ibv_get_device_guid =
            unsafe { __library.get(b"ibv_get_device_guid\0") }.map(|sym| *sym);
        let ibv_open_device = unsafe { __library.get(b"ibv_open_device\0") }.map(|sym| *sym);
        let ibv_close_device = unsafe { __library.get(b"ibv_close_device\0") }.map(|sym| *sym);
        let ibv_import_device = unsafe { __library.get(b"ibv_import_device\0") }.map(|sym| *sym);
        let ibv_import_pd = unsafe { __library.get(b"ibv_import_pd\0") }.map(|sym| *sym);
        let ibv_unimport_pd = unsafe { __library.get(b"ibv_unimport_pd\0") }.map(|sym| *sym);
        let ibv_import_mr = unsafe { __library.get(b"ibv_import_mr\0") }.map(|sym| *sym);
        let ibv_unimport_mr = unsafe { __library.get(b"ibv_unimport_mr\0") }.map(|sym| *sym);
        let ibv_import_dm = unsafe { __library.get(b"ibv_import_dm\0") }.map(|sym| *sym);
        let ibv_unimport_dm = unsafe { __library.get(b"ibv_unimport_dm\0") }.map(|sym| *sym);
        let ibv_get_async_event =
            unsafe { __library.get(b"ibv_get_async_event\0") }.map(|sym| *sym);
        let ibv_ack_async_event =
            unsafe { __library.get(b"ibv_ack_async_event\0") }.map(|sym| *sym);
        let ibv_query_device = unsafe { __library.get(b"ibv_query_device\0") }.map(|sym| *sym);
        let ibv_query_port = unsafe { __library.get(b"ibv_query_port\0") }.map(|sym| *sym);
        let ibv_query_gid = unsafe { __library.get(b"ibv_query_gid\0") }.map(|sym| *sym);
        let ibv_query_pkey = unsafe { __library.get(b"ibv_query_pkey\0") }.map(|sym| *sym);
        let ibv_get_pkey_index = unsafe { __library.get(b"ibv_get_pkey_index\0") }.map(|sym| *sym);
        let ibv_alloc_pd = unsafe { __library.get(b"ibv_alloc_pd\0") }.map(|sym| *sym);
        let ibv_dealloc_pd = unsafe { __library.get(b"ibv_dealloc_pd\0") }.map(|sym| *sym);
        let ibv_reg_mr_iova2 = unsafe { __library.get(b"ibv_reg_mr_iova2\0") }.map(|sym| *sym);
        let ibv_reg_mr = unsafe { __library.get(b"ibv_reg_mr\0") }.map(|sym| *sym);
        let ibv_reg_mr_iova = unsafe { __library.get(b"ibv_reg_mr_iova\0") }.map(|sym| *sym);
        let ibv_reg_dmabuf_mr = unsafe { __library.get(b"ibv_reg_dmabuf_mr\0") }.map(|sym| *sym);
        let ibv_rereg_mr = unsafe { __library.get(b"ibv_rereg_mr\0") }.map(|sym| *sym);
        let ibv_dereg_mr = unsafe { __library.get(b"ibv_dereg_mr\0") }.map(|sym| *sym);
        let ibv_create_comp_channel =
            unsafe { __library.get(b"ibv_create_comp_channel\0") }.map(|sym| *sym);
        let ibv_destroy_comp_channel =
            unsafe { __library.get(b"ibv_destroy_comp_channel\0") }.map(|sym| *sym);
        let ibv_create_cq = unsafe { __library.get(b"ibv_create_cq\0") }.map(|sym| *sym);
        let ibv_resize_cq = unsafe { __library.get(b"ibv_resize_cq\0") }.map(|sym| *sym);
        let ibv_destroy_cq = unsafe { __library.get(b"ibv_destroy_cq\0") }.map(|sym| *sym);
        let ibv_get_cq_event = unsafe { __library.get(b"ibv_get_cq_event\0") }.map(|sym| *sym);
        let ibv_ack_cq_events = unsafe { __library.get(b"ibv_ack_cq_events\0") }.map(|sym| *sym);
        let ibv_create_srq = unsafe { __library.get(b"ibv_create_srq\0") }.map(|sym| *sym);
        let ibv_modify_srq = unsafe { __library.get(b"ibv_modify_srq\0") }.map(|sym| *sym);
        let ibv_query_srq = unsafe { __library.get(b"ibv_query_srq\0") }.map(|sym| *sym);
        let ibv_destroy_srq = unsafe { __library.get(b"ibv_destroy_srq\0") }.map(|sym| *sym);
        let ibv_create_qp = unsafe { __library.get(b"ibv_create_qp\0") }.map(|sym| *sym);
        let ibv_modify_qp = unsafe { __library.get(b"ibv_modify_qp\0") }.map(|sym| *sym);
        let ibv_query_qp_data_in_order =
            unsafe { __library.get(b"ibv_query_qp_data_in_order\0") }.map(|sym| *sym);
        let ibv_query_qp = unsafe { __library.get(b"ibv_query_qp\0") }.map(|sym| *sym);
        let ibv_destroy_qp = unsafe { __library.get(b"ibv_destroy_qp\0") }.map(|sym| *sym);
        let ibv_create_ah = unsafe { __library.get(b"ibv_create_ah\0") }.map(|sym| *sym);
        let ibv_init_ah_from_wc =
            unsafe { __library.get(b"ibv_init_ah_from_wc\0") }.map(|sym| *sym);
        let ibv_create_ah_from_wc =
            unsafe { __library.get(b"ibv_create_ah_from_wc\0") }.map(|sym| *sym);
        let ibv_destroy_ah = unsafe { __library.get(b"ibv_destroy_ah\0") }.map(|sym| *sym);
        let ibv_attach_mcast = unsafe { __library.get(b"ibv_attach_mcast\0") }.map(|sym| *sym);
        let ibv_detach_mcast = unsafe { __library.get(b"ibv_detach_mcast\0") }.map(|sym| *sym);
        let ibv_fork_init = unsafe { __library.get(b"ibv_fork_init\0") }.map(|sym| *sym);
        let ibv_is_fork_initialized =
            unsafe { __library.get(b"ibv_is_fork_initialized\0") }.map(|sym| *sym);
        let ibv_node_type_str = unsafe { __library.get(b"ibv_node_type_str\0") }.map(|sym| *sym);
        let ibv_port_state_str = unsafe { __library.get(b"ibv_port_state_str\0") }.map(|sym| *sym);
        let ibv_event_type_str = unsafe { __library.get(b"ibv_event_type_str\0") }.map(|sym| *sym);
        let ibv_resolve_eth_l2_from_gid =
            unsafe { __library.get(b"ibv_resolve_eth_l2_from_gid\0") }.map(|sym| *sym);
        let ibv_set_ece = unsafe { __library.get(b"ibv_set_ece\0") }.map(|sym| *sym);
        let ibv_query_ece = unsafe { __library.get(b"ibv_query_ece\0") }.map(|sym| *sym);
        Ok(Ibverbs {
            __library,
            ibv_wc_status_str,
            ibv_rate_to_mult,
            ibv_rate_to_mbps,
            ibv_qp_to_qp_ex,
            ibv_get_device_list,
            ibv_free_device_list,
            ibv_get_device_name,
            ibv_get_device_index,
            ibv_get_device_guid,
            ibv_open_device,
            ibv_close_device,
            ibv_import_device,
            ibv_import_pd,
            ibv_unimport_pd,
            ibv_import_mr,
            ibv_unimport_mr,
            ibv_import_dm,
            ibv_unimport_dm,
            ibv_get_async_event,
            ibv_ack_async_event,
            ibv_query_device,
            ibv_query_port,
            ibv_query_gid,
            ibv_query_pkey,
            ibv_get_pkey_index,
            ibv_alloc_pd,
            ibv_dealloc_pd,
            ibv_reg_mr_iova2,
            ibv_reg_mr,
            ibv_reg_mr_iova,
            ibv_reg_dmabuf_mr,
            ibv_rereg_mr,
            ibv_dereg_mr,
            ibv_create_comp_channel,
            ibv_destroy_comp_channel,
            ibv_create_cq,
            ibv_resize_cq,
            ibv_destroy_cq,
            ibv_get_cq_event,
            ibv_ack_cq_events,
            ibv_create_srq,
            ibv_modify_srq,
            ibv_query_srq,
            ibv_destroy_srq,
            ibv_create_qp,
            ibv_modify_qp,
            ibv_query_qp_data_in_order,
            ibv_query_qp,
            ibv_destroy_qp,
            ibv_create_ah,
            ibv_init_ah_from_wc,
            ibv_create_ah_from_wc,
            ibv_destroy_ah,
            ibv_attach_mcast,
            ibv_detach_mcast,
            ibv_fork_init,
            ibv_is_fork_initialized,
            ibv_node_type_str,
            ibv_port_state_str,
            ibv_event_type_str,
            ibv_resolve_eth_l2_from_gid,
            ibv_set_ece,
            ibv_query_ece,
        })
    }
    pub unsafe fn ibv_wc_status_str(&self, status: ibv_wc_status) -> *const ::core::ffi::c_char {
        unsafe { (self.ibv_wc_status_str.as_ref().expect("Expected function, got error."))(status) }
    }
    pub unsafe fn ibv_rate_to_mult(&self, rate: ibv_rate) -> ::core::ffi::c_int {
        unsafe { (self.ibv_rate_to_mult.as_ref().expect("Expected function, got error."))(rate) }
    }
    pub unsafe fn ibv_rate_to_mbps(&self, rate: ibv_rate) -> ::core::ffi::c_int {
        unsafe { (self.ibv_rate_to_mbps.as_ref().expect("Expected function, got error."))(rate) }
    }
    pub unsafe fn ibv_qp_to_qp_ex(&self, qp: *mut ibv_qp) -> *mut ibv_qp_ex {
        unsafe { (self.ibv_qp_to_qp_ex.as_ref().expect("Expected function, got error."))(qp) }
    }
    pub unsafe fn ibv_get_device_list(
        &self,
        num_devices: *mut ::core::ffi::c_int,
    ) -> *mut *mut ibv_device {
        unsafe {
            (self.ibv_get_device_list.as_ref().expect("Expected function, got error."))(num_devices)
        }
    }
    pub unsafe fn ibv_free_device_list(&self, list: *mut *mut ibv_device) {
        unsafe {
            (self.ibv_free_device_list.as_ref().expect("Expected function, got error."))(list)
        }
    }
    pub unsafe fn ibv_get_device_name(
        &self,
        device: *mut ibv_device,
    ) -> *const ::core::ffi::c_char {
        unsafe {
            (self.ibv_get_device_name.as_ref().expect("Expected function, got error."))(device)
        }
    }
    pub unsafe fn ibv_get_device_index(&self, device: *mut ibv_device) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_get_device_index.as_ref().expect("Expected function, got error."))(device)
        }
    }
    pub unsafe fn ibv_get_device_guid(&self, device: *mut ibv_device) -> __be64 {
        unsafe {
            (self.ibv_get_device_guid.as_ref().expect("Expected function, got error."))(device)
        }
    }
    pub unsafe fn ibv_open_device(&self, device: *mut ibv_device) -> *mut ibv_context {
        unsafe { (self.ibv_open_device.as_ref().expect("Expected function, got error."))(device) }
    }
    pub unsafe fn ibv_close_device(&self, context: *mut ibv_context) -> ::core::ffi::c_int {
        unsafe { (self.ibv_close_device.as_ref().expect("Expected function, got error."))(context) }
    }
    pub unsafe fn ibv_import_device(&self, cmd_fd: ::core::ffi::c_int) -> *mut ibv_context {
        unsafe { (self.ibv_import_device.as_ref().expect("Expected function, got error."))(cmd_fd) }
    }
    pub unsafe fn ibv_import_pd(&self, context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd {
        unsafe {
            (self.ibv_import_pd.as_ref().expect("Expected function, got error."))(
                context, pd_handle,
            )
        }
    }
    pub unsafe fn ibv_unimport_pd(&self, pd: *mut ibv_pd) {
        unsafe { (self.ibv_unimport_pd.as_ref().expect("Expected function, got error."))(pd) }
    }
    pub unsafe fn ibv_import_mr(&self, pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr {
        unsafe {
            (self.ibv_import_mr.as_ref().expect("Expected function, got error."))(pd, mr_handle)
        }
    }
    pub unsafe fn ibv_unimport_mr(&self, mr: *mut ibv_mr) {
        unsafe { (self.ibv_unimport_mr.as_ref().expect("Expected function, got error."))(mr) }
    }
    pub unsafe fn ibv_import_dm(&self, context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm {
        unsafe {
            (self.ibv_import_dm.as_ref().expect("Expected function, got error."))(
                context, dm_handle,
            )
        }
    }
    pub unsafe fn ibv_unimport_dm(&self, dm: *mut ibv_dm) {
        unsafe { (self.ibv_unimport_dm.as_ref().expect("Expected function, got error."))(dm) }
    }
    pub unsafe fn ibv_get_async_event(
        &self,
        context: *mut ibv_context,
        event: *mut ibv_async_event,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_get_async_event.as_ref().expect("Expected function, got error."))(
                context, event,
            )
        }
    }
    pub unsafe fn ibv_ack_async_event(&self, event: *mut ibv_async_event) {
        unsafe {
            (self.ibv_ack_async_event.as_ref().expect("Expected function, got error."))(event)
        }
    }
    pub unsafe fn ibv_query_device(
        &self,
        context: *mut ibv_context,
        device_attr: *mut ibv_device_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_device.as_ref().expect("Expected function, got error."))(
                context,
                device_attr,
            )
        }
    }
    pub unsafe fn ibv_query_port(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_port.as_ref().expect("Expected function, got error."))(
                context, port_num, port_attr,
            )
        }
    }
    pub unsafe fn ibv_query_gid(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        index: ::core::ffi::c_int,
        gid: *mut ibv_gid,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_gid.as_ref().expect("Expected function, got error."))(
                context, port_num, index, gid,
            )
        }
    }
    pub unsafe fn ibv_query_pkey(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        index: ::core::ffi::c_int,
        pkey: *mut __be16,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_pkey.as_ref().expect("Expected function, got error."))(
                context, port_num, index, pkey,
            )
        }
    }
    pub unsafe fn ibv_get_pkey_index(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        pkey: __be16,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_get_pkey_index.as_ref().expect("Expected function, got error."))(
                context, port_num, pkey,
            )
        }
    }
    pub unsafe fn ibv_alloc_pd(&self, context: *mut ibv_context) -> *mut ibv_pd {
        unsafe { (self.ibv_alloc_pd.as_ref().expect("Expected function, got error."))(context) }
    }
    pub unsafe fn ibv_dealloc_pd(&self, pd: *mut ibv_pd) -> ::core::ffi::c_int {
        unsafe { (self.ibv_dealloc_pd.as_ref().expect("Expected function, got error."))(pd) }
    }
    pub unsafe fn ibv_reg_mr_iova2(
        &self,
        pd: *mut ibv_pd,
        addr: *mut ::core::ffi::c_void,
        length: usize,
        iova: u64,
        access: ::core::ffi::c_uint,
    ) -> *mut ibv_mr {
        unsafe {
            (self.ibv_reg_mr_iova2.as_ref().expect("Expected function, got error."))(
                pd, addr, length, iova, access,
            )
        }
    }
    pub unsafe fn ibv_reg_mr(
        &self,
        pd: *mut ibv_pd,
        addr: *mut ::core::ffi::c_void,
        length: usize,
        access: ::core::ffi::c_int,
    ) -> *mut ibv_mr {
        unsafe {
            (self.ibv_reg_mr.as_ref().expect("Expected function, got error."))(
                pd, addr, length, access,
            )
        }
    }
    pub unsafe fn ibv_reg_mr_iova(
        &self,
        pd: *mut ibv_pd,
        addr: *mut ::core::ffi::c_void,
        length: usize,
        iova: u64,
        access: ::core::ffi::c_int,
    ) -> *mut ibv_mr {
        unsafe {
            (self.ibv_reg_mr_iova.as_ref().expect("Expected function, got error."))(
                pd, addr, length, iova, access,
            )
        }
    }
    pub unsafe fn ibv_reg_dmabuf_mr(
        &self,
        pd: *mut ibv_pd,
        offset: u64,
        length: usize,
        iova: u64,
        fd: ::core::ffi::c_int,
        access: ::core::ffi::c_int,
    ) -> *mut ibv_mr {
        unsafe {
            (self.ibv_reg_dmabuf_mr.as_ref().expect("Expected function, got error."))(
                pd, offset, length, iova, fd, access,
            )
        }
    }
    pub unsafe fn ibv_rereg_mr(
        &self,
        mr: *mut ibv_mr,
        flags: ::core::ffi::c_int,
        pd: *mut ibv_pd,
        addr: *mut ::core::ffi::c_void,
        length: usize,
        access: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_rereg_mr.as_ref().expect("Expected function, got error."))(
                mr, flags, pd, addr, length, access,
            )
        }
    }
    pub unsafe fn ibv_dereg_mr(&self, mr: *mut ibv_mr) -> ::core::ffi::c_int {
        unsafe { (self.ibv_dereg_mr.as_ref().expect("Expected function, got error."))(mr) }
    }
    pub unsafe fn ibv_create_comp_channel(
        &self,
        context: *mut ibv_context,
    ) -> *mut ibv_comp_channel {
        unsafe {
            (self.ibv_create_comp_channel.as_ref().expect("Expected function, got error."))(context)
        }
    }
    pub unsafe fn ibv_destroy_comp_channel(
        &self,
        channel: *mut ibv_comp_channel,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_destroy_comp_channel.as_ref().expect("Expected function, got error."))(
                channel,
            )
        }
    }
    pub unsafe fn ibv_create_cq(
        &self,
        context: *mut ibv_context,
        cqe: ::core::ffi::c_int,
        cq_context: *mut ::core::ffi::c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: ::core::ffi::c_int,
    ) -> *mut ibv_cq {
        unsafe {
            (self.ibv_create_cq.as_ref().expect("Expected function, got error."))(
                context,
                cqe,
                cq_context,
                channel,
                comp_vector,
            )
        }
    }
    pub unsafe fn ibv_resize_cq(
        &self,
        cq: *mut ibv_cq,
        cqe: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_resize_cq.as_ref().expect("Expected function, got error."))(cq, cqe) }
    }
    pub unsafe fn ibv_destroy_cq(&self, cq: *mut ibv_cq) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_cq.as_ref().expect("Expected function, got error."))(cq) }
    }
    pub unsafe fn ibv_get_cq_event(
        &self,
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_get_cq_event.as_ref().expect("Expected function, got error."))(
                channel, cq, cq_context,
            )
        }
    }
    pub unsafe fn ibv_ack_cq_events(&self, cq: *mut ibv_cq, nevents: ::core::ffi::c_uint) {
        unsafe {
            (self.ibv_ack_cq_events.as_ref().expect("Expected function, got error."))(cq, nevents)
        }
    }
    pub unsafe fn ibv_create_srq(
        &self,
        pd: *mut ibv_pd,
        srq_init_attr: *mut ibv_srq_init_attr,
    ) -> *mut ibv_srq {
        unsafe {
            (self.ibv_create_srq.as_ref().expect("Expected function, got error."))(
                pd,
                srq_init_attr,
            )
        }
    }
    pub unsafe fn ibv_modify_srq(
        &self,
        srq: *mut ibv_srq,
        srq_attr: *mut ibv_srq_attr,
        srq_attr_mask: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_modify_srq.as_ref().expect("Expected function, got error."))(
                srq,
                srq_attr,
                srq_attr_mask,
            )
        }
    }
    pub unsafe fn ibv_query_srq(
        &self,
        srq: *mut ibv_srq,
        srq_attr: *mut ibv_srq_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_srq.as_ref().expect("Expected function, got error."))(srq, srq_attr)
        }
    }
    pub unsafe fn ibv_destroy_srq(&self, srq: *mut ibv_srq) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_srq.as_ref().expect("Expected function, got error."))(srq) }
    }
    pub unsafe fn ibv_create_qp(
        &self,
        pd: *mut ibv_pd,
        qp_init_attr: *mut ibv_qp_init_attr,
    ) -> *mut ibv_qp {
        unsafe {
            (self.ibv_create_qp.as_ref().expect("Expected function, got error."))(pd, qp_init_attr)
        }
    }
    pub unsafe fn ibv_modify_qp(
        &self,
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_modify_qp.as_ref().expect("Expected function, got error."))(
                qp, attr, attr_mask,
            )
        }
    }
    pub unsafe fn ibv_query_qp_data_in_order(
        &self,
        qp: *mut ibv_qp,
        op: ibv_wr_opcode,
        flags: u32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_qp_data_in_order.as_ref().expect("Expected function, got error."))(
                qp, op, flags,
            )
        }
    }
    pub unsafe fn ibv_query_qp(
        &self,
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: ::core::ffi::c_int,
        init_attr: *mut ibv_qp_init_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_query_qp.as_ref().expect("Expected function, got error."))(
                qp, attr, attr_mask, init_attr,
            )
        }
    }
    pub unsafe fn ibv_destroy_qp(&self, qp: *mut ibv_qp) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_qp.as_ref().expect("Expected function, got error."))(qp) }
    }
    pub unsafe fn ibv_create_ah(&self, pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
        unsafe { (self.ibv_create_ah.as_ref().expect("Expected function, got error."))(pd, attr) }
    }
    pub unsafe fn ibv_init_ah_from_wc(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        ah_attr: *mut ibv_ah_attr,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_init_ah_from_wc.as_ref().expect("Expected function, got error."))(
                context, port_num, wc, grh, ah_attr,
            )
        }
    }
    pub unsafe fn ibv_create_ah_from_wc(
        &self,
        pd: *mut ibv_pd,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        port_num: u8,
    ) -> *mut ibv_ah {
        unsafe {
            (self.ibv_create_ah_from_wc.as_ref().expect("Expected function, got error."))(
                pd, wc, grh, port_num,
            )
        }
    }
    pub unsafe fn ibv_destroy_ah(&self, ah: *mut ibv_ah) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_ah.as_ref().expect("Expected function, got error."))(ah) }
    }
    pub unsafe fn ibv_attach_mcast(
        &self,
        qp: *mut ibv_qp,
        gid: *const ibv_gid,
        lid: u16,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_attach_mcast.as_ref().expect("Expected function, got error."))(qp, gid, lid)
        }
    }
    pub unsafe fn ibv_detach_mcast(
        &self,
        qp: *mut ibv_qp,
        gid: *const ibv_gid,
        lid: u16,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_detach_mcast.as_ref().expect("Expected function, got error."))(qp, gid, lid)
        }
    }
    pub unsafe fn ibv_fork_init(&self) -> ::core::ffi::c_int {
        unsafe { (self.ibv_fork_init.as_ref().expect("Expected function, got error."))() }
    }
    pub unsafe fn ibv_is_fork_initialized(&self) -> ibv_fork_status {
        unsafe { (self.ibv_is_fork_initialized.as_ref().expect("Expected function, got error."))() }
    }
    pub unsafe fn ibv_node_type_str(&self, node_type: ibv_node_type) -> *const ::core::ffi::c_char {
        unsafe {
            (self.ibv_node_type_str.as_ref().expect("Expected function, got error."))(node_type)
        }
    }
    pub unsafe fn ibv_port_state_str(
        &self,
        port_state: ibv_port_state,
    ) -> *const ::core::ffi::c_char {
        unsafe {
            (self.ibv_port_state_str.as_ref().expect("Expected function, got error."))(port_state)
        }
    }
    pub unsafe fn ibv_event_type_str(&self, event: ibv_event_type) -> *const ::core::ffi::c_char {
        unsafe { (self.ibv_event_type_str.as_ref().expect("Expected function, got error."))(event) }
    }
    pub unsafe fn ibv_resolve_eth_l2_from_gid(
        &self,
        context: *mut ibv_context,
        attr: *mut ibv_ah_attr,
        eth_mac: *mut u8,
        vid: *mut u16,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self.ibv_resolve_eth_l2_from_gid.as_ref().expect("Expected function, got error."))(
                context, attr, eth_mac, vid,
            )
        }
    }
    pub unsafe fn ibv_set_ece(&self, qp: *mut ibv_qp, ece: *mut ibv_ece) -> ::core::ffi::c_int {
        unsafe { (self.ibv_set_ece.as_ref().expect("Expected function, got error."))(qp, ece) }
    }
    pub unsafe fn ibv_query_ece(&self, qp: *mut ibv_qp, ece: *mut ibv_ece) -> ::core::ffi::c_int {
        unsafe { (self.ibv_query_ece.as_ref().expect("Expected function, got error."))(qp, ece) }
    }
}
