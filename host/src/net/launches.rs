//! The launches of a net: those that have not ended, and the slots that they have.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpunet_device::Handle;

use super::state::LaunchState;
use crate::lock::lock;

/// The launches of a net that have not ended.
#[derive(Default)]
pub(crate) struct Launches {
    pub(crate) launches: Vec<Arc<LaunchState>>,
    /// Slots whose launch is being made or has not been cleaned up.
    pub(crate) taken: BTreeSet<u32>,
    /// Launches so far.
    pub(crate) launched: u64,
    /// A kernel has faulted.
    pub(crate) faulted: bool,
}

impl Launches {
    /// Which listeners of the program no kernel serves any more, now that `ended` has: none; those
    /// that were passed to a launch that failed and to no other that runs; or, once none runs and none
    /// will, all (`Some(None)`).
    pub(super) fn unserved(
        &self,
        ended: &LaunchState,
        last: bool,
        failed: bool,
    ) -> Option<Option<Vec<Handle>>> {
        if last && self.faulted {
            return Some(None);
        }
        let served =
            |handle: &Handle| self.launches.iter().any(|it| lock(&it.sockets).contains(handle));
        let unserved =
            || lock(&ended.sockets).iter().copied().filter(|handle| !served(handle)).collect();
        failed.then(|| Some(unserved()))
    }
}
