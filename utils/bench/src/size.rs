//! Sizes of messages, as options give them.

use gpunet_terminal::quantity::parse_bytes;

/// The largest message.
const LARGEST: u64 = 1 << 30;

/// Bytes of a message, in this process's memory.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    parse_bytes(text).and_then(|bytes| match bytes {
        ..=LARGEST => Ok(bytes as usize),
        _ => Err("at most 1G".to_owned()),
    })
}
