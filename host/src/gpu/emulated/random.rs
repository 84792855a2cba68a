//! A small generator of numbers (Steele, Lea and Flood, 2014), for what a seed decides.

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn shuffle(&mut self, list: &mut [u32]) {
        for end in (1..list.len()).rev() {
            let pick = self.next() % (end as u64 + 1);
            list.swap(end, pick as usize);
        }
    }
}
