//! What a net is given when it is made: settings, limits and policy. Below the proxy, which follows
//! them, and below the net, whose builder takes them from a program.

pub(crate) mod config;
pub(crate) mod limits;
pub(crate) mod policy;
