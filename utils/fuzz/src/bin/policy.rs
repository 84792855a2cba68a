//! Rules of a policy, from text: one that is taken is shown as a rule that means the same.

#![no_main]

use gpunet_host::Rule;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(rule) = text.parse::<Rule>() else { return };
    let shown = rule.to_string();
    match shown.parse::<Rule>() {
        Ok(again) => assert_eq!(again.to_string(), shown),
        Err(error) => panic!("{text:?} is shown as {shown:?}: {error}"),
    }
});
