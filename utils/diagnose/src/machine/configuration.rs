//! The configuration space of a PCI device: a list of capabilities, of which one is the serial number.

/// Capabilities beyond the first 256 bytes: number and place of each.
pub(crate) fn extended_capabilities(bytes: &[u8]) -> Vec<(u16, usize)> {
    let mut found = Vec::new();
    let mut at = 0x100;
    // Counted: so many fit at most, and a list that leads back into itself ends too.
    for _ in 0..960 {
        let Some(head) = bytes.get(at..at + 4).and_then(|head| head.try_into().ok()) else { break };
        let head = u32::from_le_bytes(head);
        if head == 0 || head == u32::MAX {
            break;
        }
        found.push(((head & 0xffff) as u16, at));
        at = (head >> 20) as usize & !3;
        if at < 0x100 {
            break;
        }
    }
    found
}

/// Overwrites the device's serial number with zeros.
pub(crate) fn blank_serial_number(bytes: &mut [u8]) {
    const SERIAL_NUMBER: u16 = 0x03;
    for (number, at) in extended_capabilities(bytes) {
        if number == SERIAL_NUMBER
            && let Some(serial) = bytes.get_mut(at + 4..at + 12)
        {
            serial.fill(0);
        }
    }
}
