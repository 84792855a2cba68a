//! Numbers with units, as command lines have them and as tables show them.

use std::time::Duration;

/// A number of bytes, at least 1, with K, M or G for powers of 1024.
///
/// # Errors
/// What is wrong with it, for clap to show.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 =
        digits.parse().map_err(|_| "write a number of bytes, such as 64, 16K or 1M".to_owned())?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("at least 1 byte".to_owned()),
        // Positions in a stream are counted in 64 bits.
        Some(bytes) if bytes <= 1 << 50 => Ok(bytes),
        _ => Err("more than any memory: at most 1048576G".to_owned()),
    }
}

/// Bytes of a ring, as a net takes them.
///
/// # Errors
/// What is wrong with it, for clap to show.
pub fn parse_ring(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (4 << 10..=1 << 30).contains(bytes))
        .ok_or_else(|| "a ring has 4K to 1G".to_owned())
}

/// A time to wait, in seconds.
///
/// # Errors
/// What is wrong with it, for clap to show.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.001..=86400.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write seconds from 0.001 to 86400".to_owned())
}

/// What one wait may take unless `--timeout` says otherwise, in seconds.
pub const TIMEOUT: &str = "30";

/// `64 B`, `1 KiB`, `64 KiB`: in the largest unit of which it is a multiple.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(shift, _): &&(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match UNITS.iter().find(fits) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_suffixes_and_bounds() {
        assert_eq!(parse_bytes("64"), Ok(64));
        assert_eq!(parse_bytes("16K"), Ok(16 << 10));
        assert_eq!(parse_bytes("3m"), Ok(3 << 20));
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        for bad in ["", "0", "0K", "K", "-1", "1.5K", "9999999999G", "1x"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert!(parse_ring("2G").is_err() && parse_ring("1K").is_err());
        assert!(parse_seconds("0").is_err() && parse_seconds("nan").is_err());
    }
    #[test]
    fn bytes_are_shown_in_the_unit_they_are_a_multiple_of() {
        let shown = [0, 64, 1 << 10, 1500, 96 << 10, 1 << 20, 3 << 30].map(bytes_text);
        assert_eq!(shown, ["0 B", "64 B", "1 KiB", "1500 B", "96 KiB", "1 MiB", "3 GiB"]);
    }
}
