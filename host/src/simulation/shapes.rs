//! How large a sharing scene is: its launches, and the slots of its proxies.

use super::draw::Draw;

/// Launches of a scene.
const LAUNCHES: usize = 8;
/// Launches of them that run at a time.
const AT_A_TIME: usize = 5;
/// Sockets beside pollers: listeners, clients, conversations, clients of a launch's own listener, and
/// those that are not gone yet.
const SOCKETS: u32 = 18;

/// Blocks and threads of all launches: small ones, since there are many.
pub(super) fn shapes(draw: &mut Draw) -> Vec<(u32, u32)> {
    (0..LAUNCHES).map(|_| (draw.of(&[1, 1, 2]), draw.of(&[1, 1, 1, 3, 3, 32]))).collect()
}

/// Slots of a proxy: few, so that they are used again.
pub(super) fn socket_slots(groups: &[u32], shards: u32) -> u32 {
    let mut groups = groups.to_vec();
    groups.sort_unstable_by(|a, b| b.cmp(a));
    let pollers: u32 = groups.iter().take(AT_A_TIME).sum();
    (SOCKETS + pollers).div_ceil(shards)
}
