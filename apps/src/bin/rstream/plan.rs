//! Which tests, in which order, on how many connections: as the stock tool has them.

/// Connections one after the other, each with its tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) connections: Vec<Vec<Case>>,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) transfers: u64,
    pub(crate) iterations: u64,
}

/// A test of the user's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Custom {
    pub(crate) bytes: Option<u64>,
    pub(crate) transfers: Option<u64>,
    pub(crate) iterations: Option<u64>,
}

impl Custom {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Sizes of the short sweep.
const FEW: [u64; 4] = [64, 4 << 10, 64 << 10, 1 << 20];

impl Plan {
    /// One test; what is not given is as in the stock tool.
    pub(crate) fn custom(custom: &Custom) -> Self {
        let case = Case {
            name: "custom".to_owned(),
            bytes: custom.bytes.unwrap_or(1000),
            transfers: custom.transfers.unwrap_or(1000),
            iterations: custom.iterations.unwrap_or(1),
        };
        Self { connections: vec![vec![case]] }
    }

    /// Latency of each size on one connection, throughput on another: few sizes, or all from 64
    /// bytes to 6 MiB, which are the powers of two and what lies in the middle between them.
    pub(crate) fn sweep(whole: bool) -> Self {
        let all = (7..=22).flat_map(|power| [1 << power, 3 << (power - 1)]);
        let sizes: Vec<u64> =
            if whole { [64].into_iter().chain(all).collect() } else { FEW.into() };
        let case = |kind: &str, bytes, transfers, iterations| {
            let name = format!("{}_{kind}", human_bytes(bytes));
            Case { name, bytes, transfers, iterations }
        };
        let latency = sizes.iter().map(|bytes| case("lat", *bytes, 1, count_of(*bytes)));
        let throughput = sizes.iter().map(|bytes| case("bw", *bytes, count_of(*bytes), 1));
        Self { connections: vec![latency.collect(), throughput.collect()] }
    }

    #[cfg(test)]
    pub(crate) fn tests(&self) -> usize {
        self.connections.iter().map(Vec::len).sum()
    }
}

impl Case {
    /// Bytes that go one way and back.
    pub(crate) fn total(&self) -> u128 {
        2 * u128::from(self.bytes) * u128::from(self.transfers) * u128::from(self.iterations)
    }
}

/// How often a size is transferred in a sweep.
fn count_of(bytes: u64) -> u64 {
    match bytes {
        ..0x400 => 100_000,
        0x400..0x1_0000 => 10_000,
        0x1_0000..0x10_0000 => 1_000,
        _ => 100,
    }
}

/// `64`, `1.5k`, `12k`, `6m`: one decimal for small numbers, none of it zero.
pub(crate) fn human_bytes(bytes: impl Into<u128>) -> String {
    let bytes = bytes.into();
    let (unit, letter) = match bytes {
        ..0x400 => (1, ""),
        0x400..0x10_0000 => (1 << 10, "k"),
        0x10_0000..0x4000_0000 => (1 << 20, "m"),
        _ => (1 << 30, "g"),
    };
    let (whole, tenths) = (bytes / unit, bytes % unit * 10 / unit);
    if whole < 10 && tenths > 0 {
        format!("{whole}.{tenths}{letter}")
    } else {
        format!("{whole}{letter}")
    }
}

/// `999`, `1k`, `20m`.
pub(crate) fn human_count(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000..1_000_000_000 => format!("{}m", count / 1_000_000),
        _ => format!("{}b", count / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_those_of_the_stock_tool() {
        let few = Plan::sweep(false);
        let names: Vec<_> = few.connections[0].iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["64_lat", "4k_lat", "64k_lat", "1m_lat"]);
        let counts: Vec<_> = few.connections[1].iter().map(|case| case.transfers).collect();
        assert_eq!(counts, [100_000, 10_000, 1_000, 100]);
        let all = Plan::sweep(true);
        let sizes: Vec<_> = all.connections[1].iter().map(|case| case.bytes).collect();
        assert_eq!(sizes.len(), 33);
        assert_eq!(sizes[..5], [64, 128, 192, 256, 384]);
        assert_eq!(sizes[31..], [4 << 20, 6 << 20]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [64_u64, 192, 1536, 12 << 10, 3 << 19, 6 << 20, 5 << 30].map(human_bytes);
        assert_eq!(shown, ["64", "192", "1.5k", "12k", "1.5m", "6m", "5g"]);
        assert_eq!([1, 1000, 100_000, 2_000_000].map(human_count), ["1", "1k", "100k", "2m"]);
    }

    #[test]
    fn a_test_of_ones_own_has_the_stock_defaults() {
        let plan = Plan::custom(&Custom { iterations: Some(7), ..Custom::default() });
        let case = &plan.connections[0][0];
        assert_eq!((case.bytes, case.transfers, case.iterations), (1000, 1000, 7));
        assert_eq!(case.total(), 14_000_000);
    }
}
